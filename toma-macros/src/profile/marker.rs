//! Inserts marks into parsed code.
//!
//! # Why
//!
//! A mark stands before its statement and refers to nothing in it, only to a static and a number. So no type, borrow,
//! temporary or drop changes, and closures stay `'static` and `Send`. A guard at the start of a block is dropped last,
//! on every exit.

use std::mem;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{ParseStream, Parser as _};
use syn::token::Brace;
use syn::visit_mut::{self, VisitMut};
use syn::{
    AngleBracketedGenericArguments, Arm, Attribute, Block, Expr, ExprAsync, ExprBlock, ExprClosure,
    ExprRepeat, Item, MacroDelimiter, Meta, Pat, Path, Result, ReturnType, Stmt, Type, parse_quote,
};

use super::calls;
use super::lines::Lines;
use crate::names::hygienic;

/// Marks statements at any depth, except inside items, constants, patterns, types and macros.
pub(super) struct Marker {
    pub(super) lines: Lines,
    /// The line of the statement that is being visited.
    enclosing: u32,
}

impl Marker {
    /// Begins at the signature.
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines, enclosing: 0 }
    }

    /// Marks the statements up to `brace`, with `guard` after the items at their head.
    pub(super) fn statements(&mut self, stmts: Vec<Stmt>, guard: TokenStream, brace: Span) -> TokenStream {
        let (outside, has_end) = (self.enclosing, falls_through(&stmts));
        let (mut marked, mut guard) = (TokenStream::new(), Some(guard));
        for mut stmt in stmts {
            if matches!(stmt, Stmt::Item(_)) {
                stmt.to_tokens(&mut marked);
                continue;
            }
            marked.extend(guard.take());
            marked.extend(self.mark(&stmt));
            self.visit_stmt_mut(&mut stmt);
            stmt.to_tokens(&mut marked);
            self.enclosing = outside;
        }
        marked.extend(guard);
        marked.extend(has_end.then(|| self.mark_of_end(brace)));
        marked
    }

    /// The mark of a statement, which sets the enclosing line.
    fn mark(&mut self, stmt: &Stmt) -> Option<TokenStream> {
        if matches!(stmt, Stmt::Expr(Expr::Verbatim(code), Some(_)) if code.is_empty()) {
            return None;
        }
        let Head { attrs, span, code } = Head::of(stmt)?;
        self.enclosing = self.lines.at(span, &code);
        let line = calls::line(self.enclosing, span);
        Some(quote!(#(#attrs)* #line))
    }

    /// Drops at a closing brace count for its line; an inner block may have ended before.
    fn mark_of_end(&mut self, brace: Span) -> TokenStream {
        let line = calls::line(self.lines.at_end(brace), brace);
        quote_spanned!(hygienic(brace)=> #[allow(unreachable_code)] #line)
    }

    /// Visits the code of a new frame, such as a closure's body, which begins at the line `enclosing`.
    fn within<T>(&mut self, enclosing: u32, mark: impl FnOnce(&mut Self) -> T) -> T {
        let outside = mem::replace(&mut self.enclosing, enclosing);
        let marked = mark(self);
        self.enclosing = outside;
        marked
    }

    fn closure(&mut self, closure: &mut ExprClosure, line: u32) {
        let span = closure.inputs_begin.span;
        let is_async = closure.asyncness.is_some();
        let guard = if is_async { TokenStream::new() } else { calls::frame(line, span) };
        let (brace, marked) = match mem::replace(&mut *closure.body, Expr::PLACEHOLDER) {
            Expr::Block(body) if is_plain(&body) => {
                let brace = body.block.brace_token;
                (brace, self.statements(body.block.stmts, guard, brace.span.close()))
            }
            mut body => {
                self.visit_expr_mut(&mut body);
                (Brace(span), quote!(#guard #body))
            }
        };
        let marked = if is_async {
            let pin = has_type(&closure.output).then(|| calls::pin(&closure.output));
            let body = calls::braced(brace.span.join(), quote!(#pin #marked));
            let task = calls::profiled(line, span, &quote!(async #body));
            quote!(#task.await)
        } else {
            marked
        };
        *closure.body = block(brace, marked);
    }

    fn task(&mut self, task: &mut ExprAsync, line: u32) -> Expr {
        let stmts = mem::take(&mut task.block.stmts);
        let marked = self.statements(stmts, TokenStream::new(), task.block.brace_token.span.close());
        task.block.stmts = verbatim(marked);
        Expr::Verbatim(calls::profiled(line, task.async_token.span, task))
    }
}

impl VisitMut for Marker {
    fn visit_block_mut(&mut self, block: &mut Block) {
        if block.stmts.iter().all(|stmt| matches!(stmt, Stmt::Item(_))) {
            return;
        }
        let span = block.brace_token.span;
        let guard = calls::block(self.enclosing, span.open());
        let stmts = mem::take(&mut block.stmts);
        block.stmts = verbatim(self.statements(stmts, guard, span.close()));
    }

    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Async(task) if !task.block.stmts.is_empty() => {
                let line = self.lines.at(task.async_token.span, task);
                *expr = self.within(line, |marker| marker.task(task, line));
            }
            Expr::Async(_) | Expr::Const(_) | Expr::TryBlock(_) => {}
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        if closure.constness.is_none() && !stays(&closure.body) {
            let line = self.lines.at(closure.inputs_begin.span, closure);
            self.within(line, |marker| marker.closure(closure, line));
        }
    }

    /// An arm's body may become a block, because it is a scope of temporaries already.
    fn visit_arm_mut(&mut self, arm: &mut Arm) {
        if matches!(&*arm.body, Expr::Block(body) if is_plain(body)) {
            return self.visit_expr_mut(&mut arm.body);
        }
        if stays(&arm.body) || only_drops(&arm.body) {
            return;
        }
        let body = mem::replace(&mut *arm.body, Expr::PLACEHOLDER);
        let Some(Head { span, .. }) = Head::of(&body) else {
            *arm.body = body;
            return;
        };
        let guard = calls::block(self.enclosing, span);
        let marked = self.statements(vec![Stmt::Expr(body, None)], guard, span);
        *arm.body = block(Brace(span), marked);
    }

    fn visit_expr_repeat_mut(&mut self, repeat: &mut ExprRepeat) {
        self.visit_expr_mut(&mut repeat.expr);
    }

    // These are not code of this function, or must stay unchanged.
    fn visit_angle_bracketed_generic_arguments_mut(&mut self, _: &mut AngleBracketedGenericArguments) {}
    fn visit_attribute_mut(&mut self, _: &mut Attribute) {}
    fn visit_item_mut(&mut self, _: &mut Item) {}
    fn visit_macro_mut(&mut self, _: &mut syn::Macro) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_path_mut(&mut self, _: &mut Path) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
}

/// The head of a statement.
struct Head {
    /// The attributes that its mark needs, too.
    attrs: Vec<Attribute>,
    /// Start of its code, after the attributes.
    span: Span,
    code: TokenStream,
}

impl Head {
    fn of(code: &impl ToTokens) -> Option<Self> {
        let head = |input: ParseStream<'_>| -> Result<Self> {
            let attrs = input.call(Attribute::parse_outer)?;
            let attrs = attrs.into_iter().filter_map(of_mark).collect();
            Ok(Self { attrs, span: input.span(), code: input.parse()? })
        };
        head.parse2(code.to_token_stream()).ok()
    }
}

/// The part of a statement's attributes that its mark repeats: conditional compilation and lint levels.
fn of_mark(mut attr: Attribute) -> Option<Attribute> {
    if attr.path().is_ident("expect") {
        // The statement itself fulfills the expectation.
        if let Meta::List(list) = &mut attr.meta {
            list.path = parse_quote!(allow);
        }
    }
    let path = attr.path();
    (path.is_ident("cfg") || path.is_ident("allow")).then_some(attr)
}

/// True if the block has no value at its end.
///
/// If the last statement is conditionally compiled, the one before may be the value.
fn falls_through(stmts: &[Stmt]) -> bool {
    let is_conditional = |stmt: &Stmt| {
        Head::of(stmt).is_none_or(|head| head.attrs.iter().any(|attr| attr.path().is_ident("cfg")))
    };
    match stmts.last() {
        None | Some(Stmt::Expr(_, None)) => false,
        Some(Stmt::Macro(invocation)) if invocation.semi_token.is_none() => false,
        Some(stmt) => !is_conditional(stmt),
    }
}

/// True if code must not become the value of a block.
///
/// A macro in braces is an expression here, and would become statements there. A unit does nothing, and would be a
/// redundant unit.
fn stays(expr: &Expr) -> bool {
    match expr {
        Expr::Macro(invocation) => matches!(invocation.mac.delimiter, MacroDelimiter::Brace(_)),
        Expr::Tuple(tuple) => tuple.elems.is_empty(),
        _ => false,
    }
}

/// True for an arm `A => drop(x)`: only in this form may values that need no drop be dropped without a lint.
fn only_drops(expr: &Expr) -> bool {
    let Expr::Call(call) = expr else { return false };
    let Expr::Path(path) = &*call.func else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "drop")
}

/// True if the closure states its return type; otherwise the type is inferred.
fn has_type(output: &ReturnType) -> bool {
    !matches!(output, ReturnType::Default)
}

fn is_plain(block: &ExprBlock) -> bool {
    block.label.is_none() && block.attrs.is_empty()
}

/// A block has the edition of its braces, which decides when temporaries are dropped.
fn block(brace_token: Brace, marked: TokenStream) -> Expr {
    let block = Block { brace_token, stmts: verbatim(marked) };
    Expr::Block(ExprBlock { attrs: Vec::new(), label: None, block })
}

/// Wraps finished code, which is not visited again.
pub(super) fn verbatim(code: TokenStream) -> Vec<Stmt> {
    vec![Stmt::Expr(Expr::Verbatim(code), None)]
}
