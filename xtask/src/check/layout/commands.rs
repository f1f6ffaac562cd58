//! Commands of `cargo xtask` that documents name.

use super::files::TextFile;

/// Whether there is a thing of that kind and name: a `bench`, an `example`, a `test` or a `step`.
pub(super) type Known<'a> = dyn Fn(&'static str, &str) -> bool + 'a;

/// Commands in documents with the name of a benchmark, an example, a test or a step that is not there. The changelog
/// tells what was.
pub(super) fn unknown(files: &[TextFile], known: &Known<'_>) -> Vec<String> {
    let is_document = |path: &str| path.rsplit_once('.').is_some_and(|(_, kind)| kind == "md");
    let documents = files.iter().filter(|file| is_document(&file.path) && file.path != "CHANGELOG.md");
    let lines =
        documents.flat_map(|file| file.text.lines().zip(1..).map(|(line, at)| (&file.path, line, at)));
    let named =
        lines.flat_map(|(path, line, at)| named(line).map(move |(kind, name)| (path, at, kind, name)));
    let unknown = named.filter(|(.., kind, name)| !known(kind, name));
    unknown.map(|(path, line, kind, name)| format!("{path}:{line}: no {kind} `{name}`")).collect()
}

/// What the commands of a line name, with its kind.
fn named(line: &str) -> impl Iterator<Item = (&'static str, &str)> {
    // A command ends with its backticks, and in a block of code in front of a comment.
    let commands = line.split("cargo xtask ").skip(1).filter_map(|rest| rest.split(['`', '#']).next());
    commands.flat_map(|command| {
        let words: Vec<_> = command.split_whitespace().collect();
        let most =
            if words.first() == Some(&"bench") || words.first() == Some(&"run") { 1 } else { usize::MAX };
        let kind = words.first().and_then(|word| kind(word));
        let names = words.iter().skip(1).take_while(|word| is_name(word)).take(most);
        let first = names.filter_map(move |name| Some((kind?, *name)));
        let chosen = words.windows(2).filter_map(|pair| Some((kind_of_option(pair[0])?, pair[1])));
        first.chain(chosen).collect::<Vec<_>>()
    })
}

/// What stands behind a command.
fn kind(command: &str) -> Option<&'static str> {
    [("bench", "bench"), ("run", "example"), ("test", "step"), ("nightly", "step")]
        .into_iter()
        .find_map(|(name, kind)| (name == command).then_some(kind))
}

fn kind_of_option(option: &str) -> Option<&'static str> {
    ["bench", "test"].into_iter().find(|kind| option.strip_prefix("--") == Some(*kind))
}

/// Whether a word is a name, and neither an option nor one that stands for names, such as `NAME`.
fn is_name(word: &str) -> bool {
    word.starts_with(|sign: char| sign.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown_in(path: &str, text: &str) -> Vec<String> {
        let known = ["bench tensors", "example embed", "step fmt", "step stress", "test torch"];
        let known = |kind: &'static str, name: &str| known.contains(&&*format!("{kind} {name}"));
        unknown(&[TextFile { path: path.into(), text: text.into() }], &known)
    }

    #[test]
    fn what_is_there_may_be_named() {
        let text = "`cargo xtask test`, `cargo xtask bench NAME` and `cargo xtask bench tensors -- x`\n\
                    ```sh\ncargo xtask test fmt --fast     # each one\ncargo xtask nightly [--seed N]\n\
                    cargo xtask torch -- test -p a --test torch x\ncargo xtask run embed -- --input notes.txt\n```\n";
        assert_eq!(unknown_in("README.md", text), [""; 0]);
    }

    #[test]
    fn what_is_not_there_is_told_with_its_line() {
        let text = "`cargo xtask bench tensor`\n`cargo xtask run fmt`, `cargo xtask test fmt embed`\n\
                    `cargo xtask nightly stres`\n`cargo xtask torch -- bench --bench torch`";
        let expected = [
            "1: no bench `tensor`",
            "2: no example `fmt`",
            "2: no step `embed`",
            "3: no step `stres`",
            "4: no bench `torch`",
        ];
        assert_eq!(unknown_in("a.md", text), expected.map(|rest| format!("a.md:{rest}")));
        assert_eq!(unknown_in("CHANGELOG.md", text), [""; 0]);
    }
}
