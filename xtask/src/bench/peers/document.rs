//! A document, a part of which is written by this command.

use anyhow::{Context as _, Result};

const BEGIN: &str = "<!-- peers: cargo xtask bench-peers -->";
const END: &str = "<!-- end of peers -->";

/// Its text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Document<'a>(pub(super) &'a str);

impl Document<'_> {
    /// The same with `part` between the marks, and nothing else changed.
    pub(super) fn with(self, part: &str) -> Result<String> {
        let (before, rest) = self.0.split_once(BEGIN).with_context(|| format!("no line `{BEGIN}`"))?;
        let (_, after) = rest.split_once(END).with_context(|| format!("no line `{END}` after `{BEGIN}`"))?;
        Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", part.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let old = format!("a\n{BEGIN}\nold\n{END}\nb {END}\n");
        let new = Document(&old).with("\nnew\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\n\nnew\n\n{END}\nb {END}\n"));
        assert_eq!(Document(&new).with("new").unwrap(), new);
    }

    #[test]
    fn a_document_without_marks_is_left_alone() {
        for text in [String::new(), BEGIN.to_owned(), END.to_owned(), format!("{END}\n{BEGIN}")] {
            assert!(Document(&text).with("new").is_err(), "{text}");
        }
    }
}
