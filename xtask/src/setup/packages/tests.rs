use anyhow::bail;

use super::*;
use crate::tests::Scratch;

fn packages(scratch: &Scratch, checksum: &str) -> Packages {
    Packages {
        root: scratch.root().to_owned(),
        what: "a test".to_owned(),
        requirements: format!("a-model==1.0 --hash=sha256:{checksum}\n"),
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
    // Written by another process: this one may still have it open when a thread starts a child.
    let copy = project.command("cp").arg(scratch.path("bin/script")).arg(scratch.path("bin/python3"));
    copy.quiet().run().unwrap();
    project.command("chmod").arg("755").arg(scratch.path("bin/python3")).quiet().run().unwrap();
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = [scratch.path("bin")].into_iter().chain(std::env::split_paths(&inherited));
    project.shell.set_var("PATH", std::env::join_paths(folders).unwrap());
    project.shell.set_var("PIP_NO_INDEX", "1");
    project.shell.set_var("PIP_FIND_LINKS", scratch.path("files"));
    project
}

/// Makes a package as pip takes it from a folder, and tells its checksum.
fn wheel(scratch: &Scratch) -> String {
    const MAKE: &str = "import hashlib, sys, zipfile\n\
        with zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n\
        \x20   wheel.writestr('a_model/files/weights', 'real')\n\
        \x20   info = 'a_model-1.0.dist-info'\n\
        \x20   wheel.writestr(info + '/METADATA', 'Metadata-Version: 2.1\\nName: a-model\\nVersion: 1.0\\n')\n\
        \x20   wheel.writestr(info + '/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        \x20   wheel.writestr(info + '/RECORD', '')\n\
        print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())\n";
    fs::create_dir_all(scratch.path("files")).unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", MAKE]).arg(scratch.path("files/a_model-1.0-py3-none-any.whl"));
    let output = python.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn what_has_its_checksum_is_installed_whatever_an_earlier_run_left() {
    let scratch = Scratch::new("packages");
    let project = project(&scratch);
    let packages = packages(&scratch, &wheel(&scratch));
    // As an earlier run leaves it that was killed while pip unpacked.
    scratch.file("venv/lib/python3.0/site-packages/a_model/files/weights", "half");
    scratch.file("cache/half/a", "left by pip");
    let error = packages.install_with("", &project, |_| bail!("not finished")).unwrap_err();
    assert_eq!(error.to_string(), "not finished");
    assert!(!packages.is_complete(), "not finished");
    packages.install_with("", &project, |_| Ok(())).unwrap();
    assert!(packages.is_complete());
    let proof = packages.proof_path().unwrap();
    assert_eq!(fs::read_to_string(proof.join("weights")).unwrap(), "real");
    assert!(!scratch.path("cache").exists());
    packages.install_with("", &project, |_| panic!("it is installed already")).unwrap();
    fs::remove_dir_all(proof).unwrap();
    assert!(!packages.is_complete(), "its files are gone");
}

#[test]
fn a_file_of_another_checksum_is_not_installed() {
    let scratch = Scratch::new("checksum");
    let project = project(&scratch);
    wheel(&scratch);
    let packages = packages(&scratch, &"0".repeat(64));
    let error = packages.install_with("", &project, |_| panic!("installed")).unwrap_err().to_string();
    assert!(error.contains("could not install a test") && error.ends_with("or do without"), "{error}");
    assert!(!packages.is_complete());
}

#[test]
fn too_little_room_is_said_before_anything_is_made() {
    let (project, scratch) = (Project::find().unwrap(), Scratch::new("room"));
    let packages = Packages { megabytes: u64::MAX, ..packages(&scratch, "") };
    let error = packages.install(&project, |_| Ok(())).unwrap_err().to_string();
    assert!(error.starts_with(&scratch.root().display().to_string()), "{error}");
    assert!(error.contains("CARGO_TARGET_DIR") && error.ends_with("or do without"), "{error}");
    assert!(!scratch.path("venv").exists());
}
