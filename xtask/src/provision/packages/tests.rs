use super::*;
use crate::scratch::Scratch;

fn packages(scratch: &Scratch) -> Packages {
    Packages {
        root: scratch.root().to_owned(),
        what: "a test".to_owned(),
        requirements: vec!["a-model==1.0".to_owned()],
        with_dependencies: false,
        megabytes: 0,
        proof: "a_model/files".into(),
        python: "Python 3",
        otherwise: "or do without".to_owned(),
    }
}

/// Goes before the true `python3`: a new environment gets to use the pip of the system, if there is one,
/// because copying that into each takes longer than all that is tested.
const PYTHON: &str = "#!/bin/sh
PATH=${PATH#*:}
if [ \"$1 $2\" = '-m venv' ]; then
    for folder; do :; done
    python3 \"$@\" --without-pip --system-site-packages && \"$folder/bin/python\" -m pip --version && exit
fi
exec python3 \"$@\"
";

fn project(scratch: &Scratch) -> Project {
    let project = Project::find().unwrap();
    scratch.file("bin/script", PYTHON);
    // Not written by us: as long as any process has it open for that, nobody can run it.
    let copy = project.command("cp").arg(scratch.path("bin/script")).arg(scratch.path("bin/python3"));
    copy.quiet().run().unwrap();
    project.command("chmod").arg("755").arg(scratch.path("bin/python3")).quiet().run().unwrap();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = [scratch.path("bin")].into_iter().chain(std::env::split_paths(&inherited));
    project.shell.set_var("PATH", std::env::join_paths(folders).unwrap());
    project
}

/// A package as pip takes it from a folder: nothing but what must be in one.
fn wheel(scratch: &Scratch) {
    const MAKE: &str = "import sys, zipfile\n\
        with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n\
        \x20   wheel.writestr('a_model/files/weights', 'real')\n\
        \x20   info = 'a_model-1.0.dist-info'\n\
        \x20   wheel.writestr(info + '/METADATA', 'Metadata-Version: 2.1\\nName: a-model\\nVersion: 1.0\\n')\n\
        \x20   wheel.writestr(info + '/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        \x20   wheel.writestr(info + '/RECORD', '')\n";
    fs::create_dir_all(scratch.path("wheels")).unwrap();
    let mut python = std::process::Command::new("python3");
    python.args(["-c", MAKE]).arg(scratch.path("wheels/a_model-1.0-py3-none-any.whl"));
    assert!(python.status().unwrap().success());
    scratch.file("wheels/complete", "a-model==1.0\n");
}

#[test]
fn what_is_downloaded_is_installed_whatever_an_earlier_run_left() {
    let scratch = Scratch::new("packages");
    let project = project(&scratch);
    wheel(&scratch);
    // As an earlier run leaves it that was killed while pip unpacked: a folder that looks installed,
    // with a package that pip could neither use nor remove.
    scratch.file("unpacking", "");
    scratch.file("venv/lib/python3.0/site-packages/a_model/files/weights", "half");
    scratch.file("tmp/half/a", "left by pip");
    let packages = packages(&scratch);
    let error = packages.install(&project, |_| bail!("not finished")).unwrap_err();
    assert_eq!(error.to_string(), "not finished");
    assert!(!packages.is_complete(), "not finished");
    packages.install(&project, |_| Ok(())).unwrap();
    assert!(packages.is_complete());
    let proof = packages.proof_path().unwrap();
    assert_eq!(fs::read_to_string(proof.join("weights")).unwrap(), "real");
    for gone in ["wheels", "tmp", "unpacking"] {
        assert!(!scratch.path(gone).exists(), "{gone}");
    }
    packages.install(&project, |_| panic!("it is installed already")).unwrap();
    fs::remove_dir_all(proof).unwrap();
    assert!(!packages.is_complete(), "its files are gone");
}

#[test]
fn too_little_room_is_said_before_anything_is_made() {
    let (project, scratch) = (Project::find().unwrap(), Scratch::new("room"));
    let packages = Packages { megabytes: u64::MAX, ..packages(&scratch) };
    let error = packages.install(&project, |_| Ok(())).unwrap_err().to_string();
    assert!(error.starts_with(&scratch.root().display().to_string()), "{error}");
    assert!(error.contains("CARGO_TARGET_DIR") && error.ends_with("or do without"), "{error}");
    assert!(!scratch.path("venv").exists());
}
