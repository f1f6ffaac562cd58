//! The lines of a document that a person would read.

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Markdown,
    /// Rust, of which only the documentation is read.
    Rust,
}

/// Words a line must have to count: headings of one word, rulers and tables say nothing.
const WORDS: usize = 3;

impl Kind {
    /// What a file of that name is; `None` for anything else than a document.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let upper = name.to_uppercase();
        let (stem, extension) = upper.rsplit_once('.').unwrap_or((&upper, ""));
        let is_document = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "README", "NOTICE"]
            .iter()
            .any(|begin| stem.starts_with(begin));
        match extension {
            "MD" => Some(Self::Markdown),
            "TXT" => Some(Self::Plain),
            "RS" => Some(Self::Rust),
            "HTML" | "HTM" => None,
            // `LICENSE-MIT`, and `COPYING.LESSER`.
            _ => is_document.then_some(Self::Plain),
        }
    }
}

/// Its lines, without marks and spaces around them.
pub(super) fn lines(text: &str, kind: Kind) -> Vec<String> {
    match kind {
        Kind::Plain => {
            text.lines().map(str::trim).filter(|line| is_readable(line)).map(str::to_owned).collect()
        }
        Kind::Markdown => markdown(text.lines()),
        Kind::Rust => markdown(text.lines().filter_map(documentation)),
    }
}

/// What a documentation comment says.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    // A line of slashes is a ruler.
    (!text.starts_with('/')).then_some(text)
}

/// Prose alone: no code, no tables.
fn markdown<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let (mut found, mut in_code) = (Vec::new(), false);
    for line in lines.map(str::trim) {
        if line.starts_with("```") || line.starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code && !line.starts_with('|') {
            let text = without_tags(line);
            let text = text.trim_start_matches(['#', '*', '-', '>', ' ']).trim();
            found.extend(is_readable(text).then(|| text.to_owned()));
        }
    }
    found
}

/// The line without HTML tags; what stands between backticks is code, and stays.
fn without_tags(line: &str) -> String {
    let (mut text, mut rest, mut in_code) = (String::new(), line, false);
    while let Some(next) = rest.chars().next() {
        in_code ^= next == '`';
        let tag = if in_code { None } else { tag_length(rest) };
        let length = tag.unwrap_or(next.len_utf8());
        text.extend(tag.is_none().then_some(next));
        rest = &rest[length..];
    }
    text
}

/// How long the tag is that `text` begins with.
fn tag_length(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('<')?;
    let begins = inside.starts_with(|first: char| first.is_ascii_lowercase() || "/!".contains(first));
    let end = inside.find('>').filter(|_| begins)?;
    Some(end + 2)
}

fn is_readable(line: &str) -> bool {
    line.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).nth(WORDS - 1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_known_by_their_names() {
        for (name, kind) in [
            ("README.md", Some(Kind::Markdown)),
            ("LICENSE-MIT", Some(Kind::Plain)),
            ("LICENSE", Some(Kind::Plain)),
            ("Apache-2.0.txt", Some(Kind::Plain)),
            ("COPYRIGHT.html", None),
            ("lib.rs", Some(Kind::Rust)),
            ("Cargo.toml", None),
            ("model.bin", None),
            ("licenses", Some(Kind::Plain)),
        ] {
            assert_eq!(Kind::of_name(name), kind, "{name}");
        }
    }

    #[test]
    fn plain_text_keeps_what_has_words() {
        let text = "  one two three  \n\n-----------\n1.2 3.4 5.6\ntwo words\nvier fünf sechs\n";
        assert_eq!(lines(text, Kind::Plain), ["one two three", "vier fünf sechs"]);
    }

    #[test]
    fn markdown_loses_marks_code_tables_and_tags() {
        let text = "# How to begin\n```sh\ncargo run in a shell\n```\n| a table of words |\n\
                    - the first of them\n<p align=\"center\">text in a paragraph</p>\n\
                    > `Vec<u8>` holds the bytes\n<img src=x> <a href=y>\na < b and b > c\n";
        assert_eq!(
            lines(text, Kind::Markdown),
            [
                "How to begin",
                "the first of them",
                "text in a paragraph",
                "`Vec<u8>` holds the bytes",
                "a < b and b > c"
            ]
        );
    }

    #[test]
    fn of_rust_only_documentation_is_read() {
        let text = "//! What this is for.\n// not a word of this\nfn f() {} /// nor of this one\n    /// Reads one more line.\n\
                    //////////////// ruler of many\n/// ```\n/// let a = code that runs;\n/// ```\n";
        assert_eq!(lines(text, Kind::Rust), ["What this is for.", "Reads one more line."]);
    }
}
