//! The text of an error: which part of it is the message, and how texts are compared.

/// Number of characters that are kept of a message.
const LONGEST_MESSAGE: usize = 200;

/// Begins libtorch's C++ backtrace, which follows its own message and names functions that fail for any reason.
const BACKTRACE: &str = "exception raised from";

/// Begin the bare frames of other errors, and Rust backtraces; only at the start of a line, because a message may
/// mention a frame.
const BACKTRACE_LINES: [&str; 2] = ["frame #0:", "stack backtrace:"];

/// Returns the first line of the message part, shortened to fit into one line of a log.
pub(super) fn message(text: &str) -> String {
    let part = message_part(text).trim_start();
    part[..line_end(part)].chars().take(LONGEST_MESSAGE).collect::<String>().trim_end().to_owned()
}

pub(super) fn message_part(text: &str) -> &str {
    // ASCII lower case, unlike full lower case, keeps every byte at its index.
    let lower = text.to_ascii_lowercase();
    let starts_line = |at: &usize| lower[..*at].ends_with('\n') || lower[..*at].ends_with("\\n");
    let frames = BACKTRACE_LINES
        .iter()
        .filter_map(|mark| lower.match_indices(mark).map(|(at, _)| at).find(starts_line));
    let end = frames.chain(lower.find(BACKTRACE)).min();
    &text[..end.unwrap_or(text.len())]
}

/// Returns the end of the first line: a line break, or an escaped one inside a Debug string. Outside of quotes `\n`
/// is more likely part of a path.
fn line_end(part: &str) -> usize {
    let quote = part.find('"').unwrap_or(part.len());
    let escaped = part.match_indices("\\n").map(|(at, _)| at);
    let escaped = escaped.filter(|at| *at > quote && !part[..*at].ends_with('\\')).min();
    part.find(['\n', '\r']).into_iter().chain(escaped).min().unwrap_or(part.len())
}

/// Returns the text in the form that is compared: lower case, and one space for every run of spaces, control
/// characters, double quotes, non-ASCII characters and Debug escapes of any of them.
///
/// So a text and its Debug form, escaped once or many times, are equal. All characters that Debug may escape become
/// spaces, because the set of characters that it escapes changes with Unicode versions.
pub(super) fn normalized(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(lower.len());
    let mut rest = lower.as_str();
    while !rest.is_empty() {
        let gap = gap_len(rest);
        if gap == 0 {
            out.push_str(&rest[..1]);
        } else if !out.ends_with(' ') {
            out.push(' ');
        }
        rest = &rest[gap.max(1)..];
    }
    out
}

/// Number of bytes at the beginning of `rest` that count as a space; 0 if it begins with a printable ASCII
/// character.
fn gap_len(rest: &str) -> usize {
    let slashes = rest.len() - rest.trim_start_matches('\\').len();
    match rest.chars().next() {
        Some('\\') => slashes + escape_len(&rest.as_bytes()[slashes..]),
        Some(char) if !char.is_ascii_graphic() || char == '"' => char.len_utf8(),
        _ => 0,
    }
}

/// Number of bytes of an escape after its backslashes.
fn escape_len(rest: &[u8]) -> usize {
    match rest {
        [b'n' | b'r' | b't' | b'0' | b'"', ..] => 1,
        [b'u', b'{', hex @ ..] => {
            let digits = hex.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            if hex.get(digits) == Some(&b'}') { digits + 3 } else { 0 }
        }
        _ => 0,
    }
}
