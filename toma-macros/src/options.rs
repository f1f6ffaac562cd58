//! The attribute's arguments: one table of names, one way to read them.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens as _;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Ident, Path, Result, Token, Type};

use crate::form::Form;

/// How a value is handed to the run-time side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A cache type, or a reference to a cache.
    Cache,
    /// A number of items, of the function's own size type.
    Size,
    /// Handed over as it is.
    Value,
    /// Handed over by reference.
    Reference,
    /// Code that runs before a retry.
    Undo,
    /// A function that classifies the body's error.
    Classify,
    /// The path of the `toma` crate.
    Crate,
}

/// One option there is.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    forms: &'static [Form],
}

/// The value of one option that was given.
pub(crate) enum Value {
    Type(Type),
    Expr(Expr),
    Path(Path),
}

/// The options of one attribute.
pub(crate) struct Options {
    /// By position in [`KNOWN`].
    given: [Option<Value>; KNOWN.len()],
}

const EVERYWHERE: &[Form] = &[Form::Batch, Form::Range, Form::Chunked];

/// Every option, in the order in which its value is evaluated.
pub(crate) static KNOWN: [Known; 17] = [
    Known { name: "cache", kind: Kind::Cache, forms: EVERYWHERE },
    Known { name: "initial", kind: Kind::Size, forms: EVERYWHERE },
    Known { name: "min", kind: Kind::Size, forms: EVERYWHERE },
    Known { name: "max", kind: Kind::Size, forms: EVERYWHERE },
    Known { name: "multiple_of", kind: Kind::Size, forms: EVERYWHERE },
    Known { name: "max_attempts", kind: Kind::Value, forms: EVERYWHERE },
    Known { name: "deadline", kind: Kind::Value, forms: EVERYWHERE },
    Known { name: "key", kind: Kind::Reference, forms: EVERYWHERE },
    Known { name: "name", kind: Kind::Value, forms: EVERYWHERE },
    Known { name: "device", kind: Kind::Reference, forms: EVERYWHERE },
    Known { name: "observer", kind: Kind::Reference, forms: EVERYWHERE },
    Known { name: "ladder", kind: Kind::Value, forms: EVERYWHERE },
    Known { name: "dim", kind: Kind::Value, forms: &[Form::Chunked] },
    Known { name: "policy", kind: Kind::Value, forms: EVERYWHERE },
    Known { name: "before_retry", kind: Kind::Undo, forms: EVERYWHERE },
    Known { name: "classify", kind: Kind::Classify, forms: EVERYWHERE },
    Known { name: "crate", kind: Kind::Crate, forms: EVERYWHERE },
];

impl Options {
    /// Reads `name = value, ..`.
    pub(crate) fn parse(form: Form, args: TokenStream) -> Result<Self> {
        let parse = |input: ParseStream<'_>| {
            let mut given = [const { None }; KNOWN.len()];
            while !input.is_empty() {
                let name = name(form, input)?;
                let index = find(form, &name)?;
                let value = value(&name, KNOWN[index].kind, input)?;
                set_once(&mut given[index], &name, value)?;
                comma(input)?;
            }
            Ok(Self { given })
        };
        let options = parse.parse2(args)?;
        options.require_initial(form)?;
        Ok(options)
    }

    /// The options that were given, in the table's order.
    pub(crate) fn given(&self) -> impl Iterator<Item = (&'static Known, &Value)> {
        KNOWN.iter().zip(&self.given).filter_map(|(known, value)| Some((known, value.as_ref()?)))
    }

    /// The value of the one option of a kind.
    pub(crate) fn of(&self, kind: Kind) -> Option<&Value> {
        self.given().find(|(known, _)| known.kind == kind).map(|(_, value)| value)
    }

    /// A batch has no other bound; a range and chunked data have their length.
    fn require_initial(&self, form: Form) -> Result<()> {
        if form != Form::Batch || self.given().any(|(known, _)| known.name == "initial") {
            return Ok(());
        }
        let message =
            "missing option `initial`, the size of the first batch: `#[toma::batch(initial = 512)]`";
        Err(Error::new(Span::call_site(), message))
    }
}

fn name(form: Form, input: ParseStream<'_>) -> Result<Ident> {
    let expected =
        |_| input.error(format!("expected options, such as `#[toma::{}(initial = 512)]`", form.name()));
    input.call(Ident::parse_any).map_err(expected)
}

/// The place in [`KNOWN`] of an option that has a meaning for `form`.
fn find(form: Form, name: &Ident) -> Result<usize> {
    let Some(index) = KNOWN.iter().position(|known| name == known.name) else {
        return Err(Error::new(name.span(), unknown(form, &name.to_string())));
    };
    if KNOWN[index].forms.contains(&form) {
        return Ok(index);
    }
    let forms: Vec<_> = KNOWN[index].forms.iter().map(Form::to_string).collect();
    let message = format!("`{name}` has no meaning for {form}, only for {}", forms.join(" and "));
    Err(Error::new(name.span(), message))
}

fn unknown(form: Form, name: &str) -> String {
    let names: Vec<_> =
        KNOWN.iter().filter(|known| known.forms.contains(&form)).map(|known| known.name).collect();
    let nearest = names.iter().min_by_key(|known| distance(name, known));
    let hint = match nearest {
        Some(known) if distance(name, known) <= 1 + known.len() / 4 => format!(", did you mean `{known}`?"),
        _ => String::from(","),
    };
    format!("unknown option `{name}`{hint} {form} has {}", names.join(", "))
}

fn value(name: &Ident, kind: Kind, input: ParseStream<'_>) -> Result<Value> {
    let needs_value = || Error::new(name.span(), format!("`{name}` needs a value: `{name} = ..`"));
    input.parse::<Option<Token![=]>>()?.ok_or_else(needs_value)?;
    if input.is_empty() || input.peek(Token![,]) {
        return Err(needs_value());
    }
    match kind {
        Kind::Cache if !input.peek(Token![&]) => cache_type(input).map(Value::Type),
        Kind::Undo => undo(input).map(Value::Expr),
        Kind::Crate => crate_path(input).map(Value::Path),
        _ => input.parse().map(Value::Expr),
    }
}

fn cache_type(input: ParseStream<'_>) -> Result<Type> {
    let ty = input.parse()?;
    if input.is_empty() || input.peek(Token![,]) {
        return Ok(ty);
    }
    Err(Error::new_spanned(ty, "cache takes a type, or a reference to a value: `cache = &expr`"))
}

fn crate_path(input: ParseStream<'_>) -> Result<Path> {
    let value: Expr = input.parse()?;
    Path::parse_mod_style
        .parse2(value.to_token_stream())
        .map_err(|_| Error::new_spanned(value, "crate takes the path of the crate: `crate = renamed`"))
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

fn set_once<T>(slot: &mut Option<T>, name: &Ident, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(name.span(), format!("`{name}` is given twice"))),
    }
}

fn comma(input: ParseStream<'_>) -> Result<()> {
    if input.is_empty() || input.parse::<Option<Token![,]>>()?.is_some() {
        return Ok(());
    }
    Err(input.error("expected `,` between options"))
}

/// How many letters to insert, remove or replace to get from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[to.len()]
}
