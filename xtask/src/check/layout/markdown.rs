//! What documents are made of.

/// A line of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    pub(super) text: &'a str,
    pub(super) part: Part<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Prose,
    /// Opens a block of code, in this language.
    Opening(&'a str),
    Code,
    Closing,
}

impl Line<'_> {
    pub(super) fn is_prose(&self) -> bool {
        self.part == Part::Prose
    }

    fn is_heading(&self) -> bool {
        self.is_prose() && self.text.trim_start_matches('#').starts_with(' ') && self.text.starts_with('#')
    }
}

/// Every line, with what it is a part of.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut open = None;
    let line = |(text, number)| {
        let part = part(text, open);
        match part {
            Part::Opening(_) => open = mark(text),
            Part::Closing => open = None,
            Part::Prose | Part::Code => {}
        }
        Line { number, text, part }
    };
    text.lines().zip(1..).map(line).collect()
}

/// What a line is a part of, where a block of code is open or none.
fn part<'a>(text: &'a str, open: Option<&str>) -> Part<'a> {
    match (open, mark(text)) {
        (None, None) => Part::Prose,
        (None, Some(mark)) => Part::Opening(text.trim_start().trim_start_matches(mark).trim()),
        (Some(open), Some(mark)) if open == mark => Part::Closing,
        (Some(_), _) => Part::Code,
    }
}

/// What opens a block of code, and closes it again.
fn mark(text: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|mark| text.trim_start().starts_with(mark))
}

/// The names by which links reach the headings of a document.
pub(super) fn anchors(text: &str) -> Vec<String> {
    lines(text).iter().filter(|line| line.is_heading()).map(|line| anchor(line.text)).collect()
}

fn anchor(heading: &str) -> String {
    let title = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = title.chars().filter(|sign| sign.is_alphanumeric() || [' ', '-', '_'].contains(sign));
    kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "intro\n\n# A `b`, c?\n```rust\n# hidden\n~~~\n```\ntext\n## Two_d-e\n~~~ sh\n```\n~~~\n#no\n";

    #[test]
    fn code_is_told_from_prose() {
        use Part::{Closing, Code, Opening, Prose};
        let parts: Vec<_> = lines(TEXT).iter().map(|line| line.part).collect();
        let block = [Opening("rust"), Code, Code, Closing];
        let other = [Opening("sh"), Code, Closing];
        assert_eq!(parts[..3], [Prose; 3]);
        assert_eq!(parts[3..7], block);
        assert_eq!(parts[7..9], [Prose; 2]);
        assert_eq!(parts[9..12], other);
        assert_eq!(parts[12], Prose);
    }

    #[test]
    fn headings_are_reached_by_their_words() {
        assert_eq!(anchors(TEXT), ["a-b-c", "two_d-e"]);
        assert_eq!(anchors("text\n```\n# code\n```\n"), [""; 0]);
    }
}
