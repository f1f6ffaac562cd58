//! Words that stand in no sentence of ours, because they name no thing.

use super::files::TextFile;

/// Written in pieces, so that this file keeps its own rule.
const BANNED: &[&str] = &[
    concat!("w", "ho"),
    concat!("w", "hom"),
    concat!("w", "hoever"),
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("any", "body"),
    concat!("every", "body"),
    concat!("some", "one"),
    concat!("any", "one"),
    concat!("every", "one"),
];

/// Files of ours in which words stand for people to read.
const KINDS: &[&str] = &["rs", "md", "cpp", "h", "py", "toml"];

/// Pronouns that stand for a person: the subject of a sentence is a type, a call, an attempt or a thread.
pub(super) fn pronouns(file: &TextFile) -> Vec<String> {
    let is_ours = file.path.rsplit_once('.').is_some_and(|(_, kind)| KINDS.contains(&kind));
    let lines = file.text.lines().zip(1..).filter(|_| is_ours);
    let found = lines.filter_map(|(line, number)| {
        let word = line.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
        let word = word.map(str::to_lowercase).find(|word| BANNED.contains(&&**word))?;
        Some(format!(":{number}: `{word}` names no thing: say which type, call, attempt or thread"))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<String> {
        pronouns(&TextFile { path: path.into(), text: text.into() })
    }

    #[test]
    fn each_pronoun_is_found_with_its_line_in_every_kind_of_file() {
        for (path, word) in KINDS.iter().flat_map(|kind| BANNED.iter().map(move |word| (kind, word))) {
            let found = of(&format!("a.{path}"), &format!("// A call.\n// It waits for {word}.\n"));
            assert_eq!(found.len(), 1, "{word} in {path}");
            assert!(found[0].starts_with(":2: "), "{found:?}");
        }
        let capital = concat!("W", "ho prints?");
        assert_eq!(of("a.md", capital).len(), 1);
    }

    #[test]
    fn parts_of_words_and_other_files_are_passed_over() {
        let word = BANNED[0];
        for text in [format!("{word}se"), format!("a_{word}"), format!("{word}le")] {
            assert_eq!(of("a.rs", &text), [""; 0], "{text}");
        }
        assert_eq!(of("a.txt", word), [""; 0]);
    }
}
