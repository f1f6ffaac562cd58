//! Rules about documents.

use super::files::TextFile;
use super::markdown::{Line, Part, lines, sections};
use super::pages::is_page;

/// The most that a document may have.
struct Bound {
    path: &'static str,
    lines: usize,
    characters: usize,
}

const BOUNDS: &[Bound] = &[
    Bound { path: "README.md", lines: 150, characters: 9_000 },
    Bound { path: "ARCHITECTURE.md", lines: 130, characters: usize::MAX },
];

/// Languages of code in documents. Rust is compiled and run, and all else is not taken for it.
const LANGUAGES: &[&str] = &["rust", "sh", "text", "toml"];

/// Units of what can be measured. A factor has no space before it, as in `1.02x`.
const UNITS: &[&str] =
    &[" %", "%", " ns", " µs", " us", " ms", " s", " kB", " MB", " GB", " KiB", " MiB", " GiB", "x"];

/// What names the command that makes figures.
const COMMAND: &str = "cargo xtask";

/// Where each figure stands with its command.
const RECORD: &str = "RESULTS.md";

/// A document that is longer than it may be.
pub(super) fn too_long(file: &TextFile) -> Option<String> {
    let bound = BOUNDS.iter().find(|bound| bound.path == file.path)?;
    let (lines, characters) = (file.text.lines().count(), file.text.chars().count());
    if lines > bound.lines {
        Some(format!(": {lines} lines, at most {}", bound.lines))
    } else if characters > bound.characters {
        Some(format!(": {characters} characters, at most {}", bound.characters))
    } else {
        None
    }
}

/// Sections that state a figure, and neither name the command that makes it nor lead to the record. A document that leads
/// there in front of its second heading does so for all. Code states no figure: it has constants, and what is printed.
pub(super) fn figures_without_source(file: &TextFile) -> Vec<String> {
    let sections = sections(&file.text);
    let mut preface = sections.iter().take(2).flatten();
    if preface.any(|line| line.text.contains(RECORD)) {
        return Vec::new();
    }
    sections.iter().filter_map(|section| figure_without_source(section)).collect()
}

fn figure_without_source(section: &[Line<'_>]) -> Option<String> {
    let has_source =
        section.iter().any(|line| [COMMAND, RECORD].iter().any(|source| line.text.contains(source)));
    let line = section.iter().find(|line| line.is_prose() && states_a_figure(line.text))?;
    (!has_source).then(|| {
        format!(
            ":{}: a figure, and no `cargo xtask` command or benches/RESULTS.md in its section that says how it is made",
            line.number
        )
    })
}

/// Whether a number with a unit stands outside of backticks.
fn states_a_figure(line: &str) -> bool {
    line.split('`').step_by(2).any(|prose| {
        let numbers = prose.match_indices(|sign: char| sign.is_ascii_digit());
        numbers.map(|(at, digit)| &prose[at + digit.len()..]).any(begins_with_a_unit)
    })
}

fn begins_with_a_unit(text: &str) -> bool {
    let rests = UNITS.iter().filter_map(|unit| text.strip_prefix(unit));
    rests.into_iter().any(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// Code in a language that no check knows, where examples are tested.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    #[test]
    fn a_readme_stays_short() {
        assert_eq!(too_long(&file("README.md", &"µ\n".repeat(150))), None);
        assert_eq!(too_long(&file("README.md", &"x\n".repeat(151))).unwrap(), ": 151 lines, at most 150");
        assert_eq!(too_long(&file("README.md", &"µ".repeat(9_000))), None);
        assert_eq!(
            too_long(&file("README.md", &"x".repeat(9_001))).unwrap(),
            ": 9001 characters, at most 9000"
        );
        assert_eq!(too_long(&file("docs/README.md", &"x\n".repeat(9_001))), None);
    }

    fn figures(text: &str) -> Vec<String> {
        figures_without_source(&file("README.md", text))
    }

    #[test]
    fn a_figure_names_the_command_that_makes_it() {
        let text =
            "# A\nIt takes\n50 µs.\n\n# B\nIt takes 50 ms: `cargo xtask bench x`.\n## C\n| a | 1.02x |\n";
        let lines: Vec<_> = figures(text).iter().map(|problem| problem[..3].to_owned()).collect();
        assert_eq!(lines, [":3:", ":8:"]);
        assert_eq!(figures("5 %, [all](benches/RESULTS.md#x)"), [""; 0]);
        assert_eq!(figures("# A\n[All](benches/RESULTS.md)\n## B\n5 %\n## C\n5 %\n"), [""; 0]);
        assert_eq!(figures("# A\n## B\n[All](benches/RESULTS.md)\n## C\n5 %\n").len(), 1);
        assert_eq!(figures("5 %\n```sh\ncargo xtask bench x\n```\n"), [""; 0]);
    }

    #[test]
    fn figures_are_numbers_with_a_unit() {
        for figure in ["1 %", "50%", "2.5 s,", "(3 ns)", "10 MiB", "1,000 MB", "1.5x faster", "0.5 GB"] {
            assert_eq!(figures(figure).len(), 1, "{figure}");
        }
        for other in
            ["64 successes", "224 x 224", "2 sets", "tch 0.24", "10 seconds", "`5 %`", "3 GBs", "x86", "2x2"]
        {
            assert_eq!(figures(other), [""; 0], "{other}");
        }
        assert_eq!(figures("```text\n5 %\n```\n"), [""; 0]);
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
