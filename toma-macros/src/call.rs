//! An attribute and its function, after all checks: any mistake has been reported before a `Call` exists.

use proc_macro2::{Group, Ident, Span, TokenStream};
use syn::{Error, Lifetime, ReceiverKind, Result, ReturnType, Signature};

use crate::form::Form;
use crate::function::Function;
use crate::names::hygienic;
use crate::options::Options;
use crate::output::Output;
use crate::parameters::{self, Parameter};
use crate::types;

/// A checked attribute and its checked function.
pub(crate) struct Call<'a> {
    pub(crate) form: Form,
    pub(crate) options: Options,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) output: Output,
    pub(crate) function: &'a Function,
    pub(crate) body: &'a Group,
}

impl<'a> Call<'a> {
    pub(crate) fn check(form: Form, args: TokenStream, function: &'a Function) -> Result<Self> {
        let options = Options::parse(form, args)?;
        reject_const(form, &function.sig)?;
        reject_async_padded(&options, &function.sig)?;
        reject_future(form, &function.sig.output)?;
        reject_exclusive_borrow_of_self(form, &function.sig)?;
        let parameters = parameters::check(form, &function.sig)?;
        let body = function.body.as_ref().ok_or_else(|| {
            let message = format!("{form} needs a body to run: put it on the implementation");
            Error::new_spanned(&function.sig.ident, message)
        })?;
        Ok(Self { form, options, parameters, output: Output::of(&function.sig.output), function, body })
    }

    pub(crate) fn is_async(&self) -> bool {
        self.function.sig.asyncness.is_some()
    }

    /// Span at which errors about generated code around the body point.
    pub(crate) fn body_span(&self) -> Span {
        hygienic(self.body.span())
    }

    /// The method `prefix` of the attribute's form, such as `run_batch` for `run`.
    pub(crate) fn method(&self, prefix: &str) -> Ident {
        self.output.method(&format!("{prefix}_{}", self.form.name()))
    }

    /// The parameters that callers pass.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|parameter| self.form.keeps(parameter.role))
    }
}

fn reject_const(form: Form, sig: &Signature) -> Result<()> {
    let Some(constness) = sig.constness else { return Ok(()) };
    let message = format!("{form} cannot run a `const fn`: trying again happens at run time");
    Err(Error::new_spanned(constness, message))
}

/// The attempt would end, and count as a success, before the future runs.
fn reject_future(form: Form, output: &ReturnType) -> Result<()> {
    let ReturnType::Type(_, ty) = output else { return Ok(()) };
    let Some(name) = types::future(ty) else { return Ok(()) };
    let message = format!("{form} cannot run a function that returns a future: await it in an `async fn`");
    Err(Error::new(name.span(), message))
}

fn reject_async_padded(options: &Options, sig: &Signature) -> Result<()> {
    let padded = options.given().find(|(known, _)| known.name == "padded");
    let (Some((_, value)), true) = (padded, sig.asyncness.is_some()) else { return Ok(()) };
    let message = "`padded` has no meaning for an async function: use `by_padded_cost` with `stream`";
    Err(Error::new_spanned(value, message))
}

/// Reported here, because the compiler's own message would be about closures that are not in the source.
fn reject_exclusive_borrow_of_self(form: Form, sig: &Signature) -> Result<()> {
    let (Some(receiver), ReturnType::Type(_, ty)) = (sig.receiver(), &sig.output) else { return Ok(()) };
    let ReceiverKind::Reference(_, of_self, Some(_)) = &receiver.kind else { return Ok(()) };
    let into_self = |lifetime: &Option<Lifetime>| lifetime.is_none() || lifetime == of_self;
    let exclusive = types::exclusive(&mut ty.as_ref().clone());
    let Some(reference) = exclusive.filter(|reference| into_self(&reference.lifetime)) else { return Ok(()) };
    let reason = "the body may run again while the reference is in use";
    Err(Error::new_spanned(reference, format!("{form} cannot return `&mut` into `self`: {reason}")))
}
