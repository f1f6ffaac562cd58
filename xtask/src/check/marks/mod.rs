//! Marks every function of a copy of `toma-core` and of the examples, and checks that nothing changes.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, ItemFn, Signature, TraitItemFn, Visibility};
use xshell::Cmd;

use super::Checks;
use crate::bench::bundle::built;
use crate::project::{Features, Project};

/// The module `listener` of the copy, which receives the marks.
const LISTENER: &str = include_str!("listener.rs");

/// The example that runs, because it needs no libtorch; the others are only compiled.
const EXAMPLE: &str = "quickstart";

/// The build stays, so that the next run is faster. It has a target folder apart from ours: cargo identifies packages
/// by their path within a workspace, so it would mistake the copy's builds for those of this workspace.
pub(super) fn step(checks: &Checks<'_>) -> Result<String> {
    let (project, copy) = (checks.project, checks.project.workspace.target_dir.join("xtask/copy"));
    project.shell.remove_path(&copy)?;
    let functions = write_copy(project, &copy)?;
    let within = project.shell.push_dir(&copy);
    let target = project.workspace.target_dir.join("xtask/marked");
    let target = project.shell.push_env("CARGO_TARGET_DIR", target);
    let tests = || project.cargo_all("test", Features::All).arg("--lib").quiet();
    compiles(tests().arg("--no-run"))?;
    compiles(project.cargo_everything("check").arg("--examples").quiet())?;
    let build = project.cargo_all("build", Features::All).args(["--example", EXAMPLE]);
    let example = built(build, EXAMPLE)?;
    let tests = || tests().args(["--", "--quiet"]);
    let example = project.command(&example).quiet().ignore_stdout().ignore_stderr();
    // Two tests start sessions of their own, and only one session can exist at a time.
    let received =
        tests().args(["--skip", "one_session_lasts", "--skip", "a_block_evicted_before_the_recording"]);
    let received = received.env("MARKS_HEARD", "1");
    checks.run_all([tests(), received, example])?;
    drop((within, target));
    Ok(format!("{functions} functions"))
}

/// Builds, and fails on a warning of the compiler.
fn compiles(cargo: Cmd<'_>) -> Result<()> {
    let output = cargo.ignore_status().output()?;
    let messages = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && !messages.contains("warning"),
        "with marks the compiler prints:\n{messages}"
    );
    Ok(())
}

/// Copies all files except build output, with marks, and returns the number of marked functions.
fn write_copy(project: &Project, copy: &Path) -> Result<usize> {
    let mut functions = 0;
    for path in &project.files(".")? {
        let (from, to) = (project.workspace.root.join(path), copy.join(path));
        fs::create_dir_all(to.parent().unwrap_or(copy))?;
        if let Some(mark) = mark_of(path) {
            let (text, count) = marked(&fs::read_to_string(from)?, mark).with_context(|| path.to_owned())?;
            functions += count;
            fs::write(to, text)?;
        } else {
            fs::copy(from, to)?;
        }
    }
    add_listener(&copy.join("toma-core")).map(|()| functions)
}

/// Adds the items that the marks of a package refer to, and the listener.
fn add_listener(package: &Path) -> Result<()> {
    let (manifest, root) = (package.join("Cargo.toml"), package.join("src/lib.rs"));
    let text = fs::read_to_string(&manifest)?;
    fs::write(manifest, text.replace("[dependencies]\n", &format!("[dependencies]\n{DEPENDENCIES}")))?;
    let text = fs::read_to_string(&root)?;
    fs::write(root, text + "\n#[doc(hidden)]\n#[allow(missing_docs)]\npub mod listener;\n")?;
    Ok(fs::write(package.join("src/listener.rs"), LISTENER)?)
}

const DEPENDENCIES: &str = "ctor.workspace = true\ntoma-macros.workspace = true\n";

/// The mark that the functions of a file get.
fn mark_of(path: &str) -> Option<&'static str> {
    let path = Path::new(path);
    let is = |folder| path.starts_with(folder) && path.extension().is_some_and(|extension| extension == "rs");
    // A mark in the code that marks call would call itself.
    let core = (is("toma-core/src") && !is("toma-core/src/marks"))
        .then_some("#[toma_macros::profile(crate = crate::listener)] ");
    core.or_else(|| is("examples").then_some("#[toma::profile] "))
}

/// Returns the text with `mark` in front of each function that can have it, and the number of these functions.
fn marked(text: &str, mark: &str) -> Result<(String, usize)> {
    let mut functions = Functions::default();
    functions.visit_file(&syn::parse_file(text)?);
    let mut text = text.to_owned();
    functions.0.sort_unstable();
    for &at in functions.0.iter().rev() {
        text.insert_str(at, mark);
    }
    Ok((text, functions.0.len()))
}

/// Starts of functions, after their attributes, in bytes.
#[derive(Default)]
struct Functions(Vec<usize>);

impl Functions {
    /// Adds a function, unless it has a mark already.
    fn add(&mut self, attrs: &[Attribute], vis: Option<&Visibility>, sig: &Signature) {
        let is_mark = |attr: &Attribute| attr.path().segments.last().is_some_and(|it| it.ident == "profile");
        if sig.constness.is_none() && !attrs.iter().any(is_mark) {
            let first = match vis {
                None | Some(Visibility::Inherited) => sig.span(),
                Some(vis) => vis.span(),
            };
            self.0.push(first.byte_range().start);
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.attrs, Some(&function.vis), &function.sig);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.attrs, Some(&function.vis), &function.sig);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if function.default.is_some() {
            self.add(&function.attrs, None, &function.sig);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_a_body_that_runs_are_marked() {
        let text = "/// ü\n#[inline]\npub(crate) async fn a() {\n    fn b() {}\n}\nconst fn c() {}\n\
            trait T { fn d(); unsafe fn e() {} }\nimpl S { pub fn f() {} }\nmacro_rules! m { () => { fn g() {} } }\n\
            #[toma::profile(every = 2)]\nfn h() {}\n";
        let (marked, count) = marked(text, "@").unwrap();
        let expected = text.replace("pub(crate)", "@pub(crate)").replace("fn b", "@fn b");
        let expected = expected.replace("unsafe", "@unsafe").replace("pub fn", "@pub fn");
        assert_eq!((marked, count), (expected, 4));
    }
}
