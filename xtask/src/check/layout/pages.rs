//! Rules about the pages of the guide, which are files and modules.

use super::files::TextFile;
use super::links::definitions;
use super::markdown::{Part, lines};

/// A page of the guide that begins with something else than a whole program.
pub(super) fn without_program(file: &TextFile) -> Option<String> {
    let lines = lines(&file.text);
    let opening = lines.iter().find(|line| line.part != Part::Prose).map(|line| line.part);
    let code =
        lines.iter().skip_while(|line| line.is_prose()).skip(1).take_while(|line| line.part == Part::Code);
    let begins_with_program = opening == Some(Part::Opening("rust"))
        && code.into_iter().any(|line| line.text.starts_with("fn main()"));
    (is_page(&file.path) && file.path != INDEX && !begins_with_program)
        .then(|| ": does not begin with a program in Rust that has a `main`".to_owned())
}

/// Pages of the guide that no crate includes, so that their programs are not tested.
pub(super) fn untested(files: &[TextFile]) -> Vec<String> {
    let sources: Vec<_> = files.iter().filter(|file| INCLUDES.contains(&&*file.path)).collect();
    let is_included = |page: &TextFile| {
        let name = page.path.trim_start_matches("docs/").trim_end_matches(".md");
        let (by_name, by_path) =
            (format!("    {name}: \""), format!("include_str!(\"../../{}\")", page.path));
        // The facade leaves those that need libtorch to `toma-torch`.
        let facade_tests = |text: &str| {
            text.split("not(doctest)))]\npages!").next().is_some_and(|text| text.contains(&by_name))
        };
        sources.iter().any(|source| facade_tests(&source.text) || source.text.contains(&by_path))
    };
    let pages = files.iter().filter(|file| is_page(&file.path) && file.path != INDEX);
    pages
        .filter(|page| !is_included(page))
        .map(|page| format!("{}: no documentation test includes it", page.path))
        .collect()
}

/// Blocks of code in an unknown language, in documents whose examples are tested: they would be skipped silently.
pub(super) fn unknown_languages(file: &TextFile) -> Vec<String> {
    let is_tested = ["README.md", "toma-torch/README.md"].contains(&&*file.path) || is_page(&file.path);
    let unknown = lines(&file.text).into_iter().filter(|_| is_tested).filter_map(|line| match line.part {
        Part::Opening(language) if !LANGUAGES.contains(&language) => {
            Some(format!(":{}: code in `{language}`, not in one of {LANGUAGES:?}", line.number))
        }
        _ => None,
    });
    unknown.collect()
}

/// Languages of code blocks. Rust is compiled and run; the others are never mistaken for it.
const LANGUAGES: &[&str] = &["rust", "sh", "text", "toml"];

const INDEX: &str = "docs/README.md";

const GUIDE: &str = "src/guide.rs";

/// What includes the pages.
const INCLUDES: &[&str] = &[GUIDE, "toma-torch/src/lib.rs"];

/// Whether the file is a page of the guide, or its index.
pub(super) fn is_page(path: &str) -> bool {
    path.strip_prefix("docs/").is_some_and(|name| name.rsplit_once('.').is_some_and(|(_, kind)| kind == "md"))
}

/// Links of a page that lead nowhere where it is a module: each is a reference, which `guide` defines otherwise.
pub(super) fn links_without_module(files: &[TextFile]) -> Vec<String> {
    let guide = files.iter().find(|file| file.path == GUIDE).map_or("", |file| &file.text);
    let pages = files.iter().filter(|file| is_page(&file.path));
    pages.flat_map(|page| links_without(guide, page)).collect()
}

fn links_without(guide: &str, page: &TextFile) -> Vec<String> {
    let is_defined = |label: &str| guide.contains(&format!("[{label}]: crate::guide"));
    let defined = definitions(&page.text).into_iter().filter(|(_, label)| !is_defined(label));
    let undefined = defined.map(|(line, label)| {
        format!("{}:{line}: `[{label}]` is not defined in {GUIDE}, where it leads to a module", page.path)
    });
    let inline = lines(&page.text).into_iter().filter(|line| line.is_prose() && has_inline(line.text));
    let inline = inline.map(|line| {
        format!(
            "{}:{}: a link to a file leads nowhere in a module; write a reference",
            page.path, line.number
        )
    });
    undefined.chain(inline).collect()
}

/// Whether a link that is no reference leads to a file.
fn has_inline(line: &str) -> bool {
    line.split("](").skip(1).any(|target| !target.starts_with("http") && !target.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    #[test]
    fn links_of_a_page_lead_to_modules_too() {
        let guide = "#[doc = \"[a]: crate::guide::a\"]";
        let of = |text: &str| links_without_module(&[file(GUIDE, guide), file("docs/b.md", text)]);
        assert_eq!(of("See [a], [web](https://x.org) and [below](#b).\n\n[a]: a.md\n"), [""; 0]);
        assert_eq!(of("See [c].\n\n[c]: c.md\n").len(), 1);
        assert_eq!(
            of("See [a](a.md).\n"),
            ["docs/b.md:1: a link to a file leads nowhere in a module; write a reference"]
        );
        assert_eq!(links_without_module(&[file("README.md", "[a](docs/a.md)\n\n[c]: c.md")]), [""; 0]);
    }

    #[test]
    fn a_test_of_the_guide_has_the_path_of_its_page() {
        // rustdoc names a test after the file of its text only where nothing stands beside that text.
        let guide = include_str!("../../../../src/guide.rs");
        let texts: Vec<_> = guide.lines().map(str::trim).filter(|line| line.starts_with("#[doc")).collect();
        assert_eq!(texts, ["#[doc = include_str!(concat!(\"../docs/\", stringify!($page), \".md\"))]"]);
    }

    #[test]
    fn a_page_begins_with_a_program() {
        let of = |path: &str, text: &str| without_program(&file(path, text));
        assert_eq!(of("docs/a.md", "# A\n```rust\nfn main() {}\n```\n"), None);
        for text in ["# A\n", "```rust\nf();\n```\n```rust\nfn main() {}\n```\n", "```sh\nfn main()\n```\n"] {
            assert!(of("docs/a.md", text).is_some(), "{text}");
        }
        assert_eq!(of("docs/README.md", "# A\n"), None);
        assert_eq!(of("README.md", "# A\n"), None);
    }

    #[test]
    fn each_page_is_tested_by_a_crate() {
        let guide =
            "pages! {\n    a: \"..\",\n}\n#[cfg(all(x, not(doctest)))]\npages! {\n    b: \"..\",\n}\n";
        let torch = "#[doc = include_str!(\"../../docs/c.md\")]";
        let files = ["docs/a.md", "docs/b.md", "docs/c.md", "docs/README.md"].map(|path| file(path, ""));
        let sources = [file("src/guide.rs", guide), file("toma-torch/src/lib.rs", torch)];
        let files: Vec<_> = files.into_iter().chain(sources).collect();
        assert_eq!(untested(&files), ["docs/b.md: no documentation test includes it"]);
    }

    #[test]
    fn code_is_run_or_says_that_it_is_none() {
        let of = |path: &str, text: &str| unknown_languages(&file(path, text));
        assert_eq!(of("docs/a.md", "```rust\n```\n```text\n```\n~~~ sh\n~~~\n```toml\n```\n"), [""; 0]);
        for language in ["", "rust,ignore", "rust,no_run", "rs"] {
            assert_eq!(
                of("docs/a.md", &format!("```rust\n```\n```{language}\n```\n")).len(),
                1,
                "{language}"
            );
        }
        assert_eq!(of("README.md", "```rust,ignore\n```\n").len(), 1);
        assert_eq!(of("benches/RESULTS.md", "```\n```\n"), [""; 0]);
    }
}
