//! Rules about lines of text.

use super::files::TextFile;

/// Maximum number of lines of a source file, without its tests.
const MAX_LINES: usize = 400;

/// Reports a source file with more lines than a reader keeps in mind.
pub(super) fn too_long(file: &TextFile) -> Option<String> {
    let lines = own_lines(&file.text);
    (!file.is_not_shipped() && lines > MAX_LINES)
        .then(|| format!(": {lines} lines, at most {MAX_LINES}; split it by subject"))
}

/// Finds the line that lifts the lint against `unsafe`, without which the file cannot use it.
pub(super) fn lifts_unsafe(text: &str) -> Option<String> {
    // Written in pieces, so that this file keeps its own rule.
    let lint = concat!("unsafe", "_code");
    let at = text.lines().position(|line| line.contains(lint) && !line.starts_with("#![forbid("))?;
    Some(format!(":{}: lifts the ban on `unsafe` outside the files it is allowed in", at + 1))
}

/// Lines up to the test module that closes the file.
pub(super) fn own_lines(text: &str) -> usize {
    let lines: Vec<_> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{'));
    tests.unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: usize) -> TextFile {
        TextFile { path: path.into(), text: "x\n".repeat(lines) }
    }

    #[test]
    fn long_sources_are_named_with_their_length() {
        assert_eq!(too_long(&file("src/lib.rs", 400)), None);
        assert!(too_long(&file("src/lib.rs", 401)).unwrap().starts_with(": 401 lines"));
        assert_eq!(too_long(&file("toma-core/tests/big.rs", 401)), None);
        assert_eq!(too_long(&file("toma-core/src/loops/tests.rs", 401)), None);
    }

    #[test]
    fn the_tests_at_the_end_do_not_count() {
        let code = "a\n\nb\n";
        assert_eq!(own_lines(code), 3);
        assert_eq!(own_lines(&format!("{code}#[cfg(test)]\nmod tests {{\n    c\n}}\n")), 3);
        assert_eq!(own_lines(&format!("{code}#[cfg(test)]\nmod tests;\nd\n")), 6);
        assert_eq!(own_lines(""), 0);
    }
}
