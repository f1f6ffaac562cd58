//! The command line: a command, flags and names in any order, and after `--` what is passed on.

use std::ffi::OsString;

use anyhow::{Context as _, Result, bail};

/// What has not been asked for yet of the command line.
#[derive(Debug)]
pub(crate) struct Args {
    words: Vec<String>,
    rest: Vec<String>,
}

/// What is left when all flags have been asked for.
#[derive(Debug)]
pub(crate) struct Names {
    /// Words that are no flags.
    pub(crate) names: Vec<String>,
    /// Words after `--`, for the program that is run.
    pub(crate) rest: Vec<String>,
}

impl Args {
    pub(crate) fn of_process() -> Self {
        let lossy = |word: OsString| word.to_string_lossy().into_owned();
        Self::new(std::env::args_os().skip(1).map(lossy))
    }

    pub(crate) fn new(words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut words = words.into_iter().map(Into::into);
        Self { words: words.by_ref().take_while(|word| word != "--").collect(), rest: words.collect() }
    }

    /// The first word, when it is no flag.
    pub(crate) fn command(&mut self) -> Option<String> {
        self.words.first().filter(|word| !word.starts_with('-'))?;
        Some(self.words.remove(0))
    }

    /// Whether `flag` is given.
    pub(crate) fn flag(&mut self, flag: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != flag);
        self.words.len() < before
    }

    /// The word after `option`, or after `option=`.
    pub(crate) fn value(&mut self, option: &str) -> Result<Option<String>> {
        let joined = format!("{option}=");
        if let Some(at) = self.words.iter().position(|word| word.starts_with(&joined)) {
            return Ok(Some(self.words.remove(at)[joined.len()..].to_owned()));
        }
        let Some(at) = self.words.iter().position(|word| word == option) else { return Ok(None) };
        self.words.remove(at);
        let value = (at < self.words.len()).then(|| self.words.remove(at));
        Ok(Some(value.with_context(|| format!("option `{option}`: needs a value"))?))
    }

    /// The names, once every flag has been asked for.
    pub(crate) fn names(self) -> Result<Names> {
        if let Some(flag) = self.words.iter().find(|word| word.starts_with('-')) {
            bail!("unknown option `{flag}`; `cargo xtask --help` lists the options");
        }
        Ok(Names { names: self.words, rest: self.rest })
    }
}

impl Names {
    /// The names, for a command that passes nothing on.
    pub(crate) fn without_rest(self) -> Result<Vec<String>> {
        match self.rest.first() {
            Some(word) => bail!("unexpected argument `{word}` after `--`: this command passes nothing on"),
            None => Ok(self.names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_stand_anywhere_and_names_keep_their_order() {
        let mut args = Args::new(["test", "doc", "--fail-fast", "fmt"]);
        assert_eq!(args.command().as_deref(), Some("test"));
        assert!(args.flag("--fail-fast"));
        assert!(!args.flag("--list"));
        assert_eq!(args.names().unwrap().without_rest().unwrap(), ["doc", "fmt"]);
    }

    #[test]
    fn a_flag_first_is_no_command() {
        assert_eq!(Args::new(["--list", "test"]).command(), None);
        assert_eq!(Args::new([""; 0]).command(), None);
    }

    #[test]
    fn values_are_taken_out() {
        for words in [&["--calls", "50", "case"][..], &["case", "--calls=50"]] {
            let mut args = Args::new(words.iter().copied());
            assert_eq!(args.value("--calls").unwrap().as_deref(), Some("50"));
            assert_eq!(args.names().unwrap().names, ["case"]);
        }
        assert_eq!(Args::new(["case"]).value("--calls").unwrap(), None);
    }

    #[test]
    fn a_missing_value_names_the_option() {
        let error = Args::new(["--calls"]).value("--calls").unwrap_err();
        assert_eq!(error.to_string(), "option `--calls`: needs a value");
    }

    #[test]
    fn an_unknown_flag_is_named() {
        let error = Args::new(["fmt", "--fast"]).names().unwrap_err();
        assert!(error.to_string().starts_with("unknown option `--fast`"), "{error}");
    }

    #[test]
    fn words_after_two_dashes_are_passed_on_untouched() {
        let mut args = Args::new(["overhead", "--", "--help", "--", "x"]);
        assert!(!args.flag("--help"));
        let Names { names, rest } = args.names().unwrap();
        assert_eq!(names, ["overhead"]);
        assert_eq!(rest, ["--help", "--", "x"]);
        let error = Names { names, rest }.without_rest().unwrap_err();
        assert!(error.to_string().contains("`--help`"), "{error}");
    }
}
