//! Rules about sentences of documents.

use super::files::TextFile;
use super::links::definition;
use super::markdown::lines;
use super::pages::is_page;

/// Words a sentence may have, code in backticks counted as one. More are read twice.
const MAX_WORDS: usize = 20;

/// Documents whose sentences are counted, besides the pages of the guide.
const DOCUMENTS: &[&str] =
    &["README.md", "ARCHITECTURE.md", "DESIGN.md", "CONTRIBUTING.md", "examples/README.md"];

/// Sentences of a document that have more words than they may.
pub(super) fn too_long(file: &TextFile) -> Vec<String> {
    let is_read = DOCUMENTS.contains(&&*file.path) || is_page(&file.path);
    let sentences = sentences(&file.text).into_iter();
    let long = sentences.filter(|(_, words)| is_read && *words > MAX_WORDS);
    long.map(|(line, words)| format!(":{line}: a sentence of {words} words, at most {MAX_WORDS}")).collect()
}

/// The first line of each sentence, and how many words it has. A heading, an item and a cell end one.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let prose: Vec<_> = lines(text).iter().map(|line| if line.is_prose() { line.text } else { "" }).collect();
    let paragraphs: Vec<_> = prose.join("\n").split("\n\n").map(without_code).collect();
    let text = paragraphs.join("\n\n");
    let marks: Vec<_> = text.lines().zip(1..).flat_map(|(line, number)| marks(line, number)).collect();
    marks.split(Option::is_none).filter_map(|words| Some(((*words.first()?)?, words.len()))).collect()
}

/// A paragraph with one word for what is in backticks. An address of a link is part of the word before it.
fn without_code(paragraph: &str) -> String {
    let code = |text: &str| format!("C{}", "\n".repeat(text.matches('\n').count()));
    let parts = paragraph.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { code(part) } else { part.to_owned() }).collect()
}

/// The line's number for each of its words, and none where a sentence ends.
fn marks(line: &str, number: usize) -> Vec<Option<usize>> {
    let first = line.split_whitespace().next().unwrap_or("#");
    let is_item = first == "-"
        || first.starts_with('#')
        || first.strip_suffix('.').is_some_and(|number| number.parse::<usize>().is_ok());
    let begins = is_item || definition(line).is_some();
    let words = line.split_whitespace().flat_map(|word| {
        let last = word.trim_end_matches([')', ']', '*', '_', '"']);
        let ends = word.contains('|') || last.ends_with(['.', '!', '?']);
        [word.contains(char::is_alphanumeric).then_some(Some(number)), ends.then_some(None)]
    });
    begins.then_some(None).into_iter().chain(words.flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_with_a_stop_an_item_or_a_cell() {
        let text = "# A heading\n\nOne two. *Three\nfour!* Five\n- six 1.5\n| a | b c |\n|---|---|\n1. eight\n\n[nine]: ten.md";
        let expected = [(1, 2), (3, 2), (3, 2), (4, 1), (5, 2), (6, 1), (6, 2), (8, 1), (8, 1), (10, 2)];
        assert_eq!(sentences(text), expected);
        let text =
            "See `a b\nc | d. e`, [f g](h.md#i.j) – and.\n\n```sh\nx y z\n```\nA lone ` stays\n\ntwo words";
        assert_eq!(sentences(text), [(1, 5), (7, 3), (9, 2)]);
    }

    #[test]
    fn a_long_sentence_is_told_with_its_line_and_count() {
        let long = format!("\n{}", "a ".repeat(21));
        let of = |path: &str, text: &str| too_long(&TextFile { path: path.into(), text: text.into() });
        assert_eq!(of("docs/a.md", &long), [":2: a sentence of 21 words, at most 20"]);
        assert_eq!(of("CONTRIBUTING.md", &long).len(), 1);
        assert_eq!(of("docs/a.md", &long[3..]), [""; 0]);
        assert_eq!(of("benches/RESULTS.md", &long), [""; 0]);
    }
}
