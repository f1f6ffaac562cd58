//! The attribute's arguments: one table of names, one way to read them.

use std::collections::BTreeMap;
use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens as _;
use strsim::levenshtein;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Ident, Path, Result, Token, Type};

use crate::form::Form;

/// How a value is passed to the run-time code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A cache type, or a reference to a cache.
    Cache,
    /// A number of items, of the function's own size type.
    Size,
    /// Passed by value.
    Value,
    /// Passed by reference.
    Reference,
    /// Code that runs before a retry.
    Undo,
    /// A function that classifies the body's error.
    Classify,
    /// The path of the `toma` crate.
    Crate,
}

/// A supported option.
pub(crate) struct OptionSpec {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The only form that accepts it; `None` for all forms.
    only: Option<Form>,
}

impl OptionSpec {
    const fn new(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, only: None }
    }
}

/// The options of one attribute.
pub(crate) struct Options {
    /// Values by their position in [`KNOWN`]. A cache type is [`Expr::Verbatim`].
    given: BTreeMap<usize, Expr>,
}

/// Every option, in the order in which its value is evaluated.
pub(crate) static KNOWN: [OptionSpec; 20] = [
    OptionSpec::new("cache", Kind::Cache),
    OptionSpec::new("initial", Kind::Size),
    OptionSpec::new("min", Kind::Size),
    OptionSpec::new("max", Kind::Size),
    OptionSpec::new("multiple_of", Kind::Size),
    OptionSpec::new("max_attempts", Kind::Value),
    OptionSpec::new("deadline", Kind::Value),
    OptionSpec::new("key", Kind::Reference),
    OptionSpec::new("name", Kind::Value),
    OptionSpec::new("device", Kind::Reference),
    OptionSpec::new("ranks", Kind::Reference),
    OptionSpec::new("observer", Kind::Reference),
    OptionSpec::new("ladder", Kind::Value),
    OptionSpec::new("predict", Kind::Value),
    OptionSpec { only: Some(Form::Chunked), ..OptionSpec::new("dim", Kind::Value) },
    OptionSpec { only: Some(Form::Chunked), ..OptionSpec::new("padded", Kind::Reference) },
    OptionSpec::new("policy", Kind::Value),
    OptionSpec::new("before_retry", Kind::Undo),
    OptionSpec::new("classify", Kind::Classify),
    OptionSpec::new("crate", Kind::Crate),
];

impl Options {
    /// Reads `name = value, ..`.
    pub(crate) fn parse(form: Form, args: TokenStream) -> Result<Self> {
        let mut given = BTreeMap::new();
        let example = format!("`#[toma::{}(initial = 512)]`", form.name());
        read(args, &example, |name, input| {
            let index = find(form, name)?;
            Ok(given.insert(index, value(name, KNOWN[index].kind, input)?).is_none())
        })?;
        let options = Self { given };
        // A batch has no other bound; a range and chunked data have their length.
        if form == Form::Batch && !options.given().any(|(known, _)| known.name == "initial") {
            let expected = "the size of the first batch: `#[toma::batch(initial = 512)]`";
            return Err(Error::new(Span::call_site(), format!("missing option `initial`, {expected}")));
        }
        Ok(options)
    }

    /// The given options, in the table's order.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static OptionSpec, &Expr)> {
        let given = self.given.iter().map(|(index, value)| (&KNOWN[*index], value));
        given.filter(|(known, value)| !(known.name == "predict" && is_none(value)))
    }

    /// The value of the one option of a kind.
    pub(crate) fn of(&self, kind: Kind) -> Option<&Expr> {
        self.given().find(|(known, _)| known.kind == kind).map(|(_, value)| value)
    }
}

/// True for `predict = None`, which counts as not given.
fn is_none(value: &Expr) -> bool {
    matches!(value, Expr::Path(path) if path.path.is_ident("None"))
}

/// Reads `name = value, ..`. The closure `option` reads each value after its `=`, and returns whether the name is new.
pub(crate) fn read(
    args: TokenStream,
    example: &str,
    mut option: impl FnMut(&Ident, ParseStream<'_>) -> Result<bool>,
) -> Result<()> {
    let parse = |input: ParseStream<'_>| {
        while !input.is_empty() {
            let expected = |_| input.error(format!("expected options, such as {example}"));
            let name = input.call(Ident::parse_any).map_err(expected)?;
            if !option(&name, input)? {
                return Err(Error::new(name.span(), format!("`{name}` is given twice")));
            }
            if !input.is_empty() && input.parse::<Option<Token![,]>>()?.is_none() {
                return Err(input.error("expected `,` between options"));
            }
        }
        Ok(())
    };
    parse.parse2(args)
}

/// Index in [`KNOWN`] of an option that `form` accepts.
fn find(form: Form, name: &Ident) -> Result<usize> {
    let Some(index) = KNOWN.iter().position(|known| name == known.name) else {
        return Err(Error::new(name.span(), unknown(form, &name.to_string())));
    };
    match KNOWN[index].only.filter(|only| *only != form) {
        None => Ok(index),
        Some(only) => {
            let message = format!("`{name}` has no meaning for {form}, only for {only}");
            Err(Error::new(name.span(), message))
        }
    }
}

fn unknown(form: Form, name: &str) -> String {
    let known = KNOWN.iter().filter(|known| known.only.is_none_or(|only| only == form));
    let names: Vec<_> = known.map(|known| known.name).collect();
    format!("unknown option `{name}`{}", instead(name, form, &names))
}

/// Lists the names that `owner` has instead of `name`, the nearest first.
pub(crate) fn instead(name: &str, owner: impl Display, names: &[&str]) -> String {
    let is_near = |known: &&&str| levenshtein(name, known) <= 1 + known.len() / 4;
    let nearest = names.iter().min_by_key(|known| levenshtein(name, known)).filter(is_near);
    let hint = nearest.map_or(",".to_owned(), |known| format!(", did you mean `{known}`?"));
    format!("{hint} {owner} has {}", names.join(", "))
}

/// Reads the `=` in front of a value.
pub(crate) fn equals(name: &Ident, input: ParseStream<'_>) -> Result<()> {
    let needs_value = || Error::new(name.span(), format!("`{name}` needs a value: `{name} = ..`"));
    input.parse::<Option<Token![=]>>()?.ok_or_else(needs_value)?;
    if input.is_empty() || input.peek(Token![,]) { Err(needs_value()) } else { Ok(()) }
}

fn value(name: &Ident, kind: Kind, input: ParseStream<'_>) -> Result<Expr> {
    equals(name, input)?;
    match kind {
        Kind::Cache if !input.peek(Token![&]) => cache_type(input),
        Kind::Undo => undo(input),
        Kind::Crate => crate_path(input),
        _ => input.parse(),
    }
}

fn cache_type(input: ParseStream<'_>) -> Result<Expr> {
    let ty = input.parse::<Type>()?;
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(Expr::Verbatim(ty.into_token_stream()));
    }
    Err(Error::new_spanned(ty, "cache takes a type, or a reference to a value: `cache = &expr`"))
}

pub(crate) fn crate_path(input: ParseStream<'_>) -> Result<Expr> {
    let value: Expr = input.parse()?;
    match Path::parse_mod_style.parse2(value.to_token_stream()) {
        Ok(_) => Ok(value),
        Err(_) => Err(Error::new_spanned(value, "crate takes the path of the crate: `crate = renamed`")),
    }
}

fn undo(input: ParseStream<'_>) -> Result<Expr> {
    let mut undo = input.parse()?;
    // `macro_rules` passes `$undo:expr` on inside an invisible group.
    while let Expr::Group(group) = undo {
        undo = *group.expr;
    }
    match &undo {
        Expr::Closure(closure) if !closure.inputs.is_empty() => {
            let message = "before_retry takes no parameters: the function's own parameters are in scope";
            Err(Error::new_spanned(&closure.inputs, message))
        }
        _ => Ok(undo),
    }
}
