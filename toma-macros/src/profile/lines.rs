//! The lines of a function: their numbers and their text.

use proc_macro2::{Delimiter, Group, LineColumn, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::Signature;

use super::calls;
use super::checked::Profile;
use crate::function::Function;

/// A line's number in the file, and its text.
struct Line {
    number: usize,
    text: String,
}

/// The lines of one function. Marks refer to them by index; the first is the signature.
pub(super) struct Lines(Vec<Line>);

impl Lines {
    /// The signature, and all lines of the body's source if there is a source.
    ///
    /// Code from other macros has no source: its lines are those of the statements.
    pub(super) fn of(profile: &Profile<'_>, body: Span) -> Self {
        let Function { vis, sig, .. } = profile.function;
        Self::with_signature(readable(quote!(#vis #sig)), profile, body)
    }

    /// Like [`Lines::of`], if another attribute of `toma` has given the function other parameters.
    ///
    /// The parentheses still have the user's spans, and so does the source between them.
    pub(super) fn of_emitted(profile: &Profile<'_>, body: Span) -> Self {
        let Function { vis, sig, .. } = profile.function;
        let signature = as_written(vis, sig).unwrap_or_else(|| readable(quote!(#vis #sig)));
        Self::with_signature(signature, profile, body)
    }

    fn with_signature(signature: String, profile: &Profile<'_>, body: Span) -> Self {
        let number = profile.function.sig.fn_token.span.start().line;
        let mut lines = vec![Line { number, text: signature + " {" }];
        if let Some(text) = body.source_text().as_deref().and_then(|text| text.strip_prefix('{')) {
            lines.extend(source(text, body.start().line));
        }
        Self(lines)
    }

    /// Index of the line on which the code at `span` begins.
    pub(super) fn at(&mut self, span: Span, code: &dyn ToTokens) -> u32 {
        self.of_number(span.start().line, || first_line(&readable(code.to_token_stream())))
    }

    /// Index of the line with the brace that ends a block.
    pub(super) fn at_end(&mut self, brace: Span) -> u32 {
        self.of_number(brace.end().line, || "}".to_owned())
    }

    fn of_number(&mut self, number: usize, text: impl FnOnce() -> String) -> u32 {
        let known = self.0.iter().skip(1).position(|line| line.number == number);
        let index = known.map_or(self.0.len(), |behind_signature| behind_signature + 1);
        if known.is_none() {
            self.0.push(Line { number, text: text() });
        }
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// The function's static, and the import of the called functions.
    pub(super) fn function(self, profile: &Profile<'_>) -> TokenStream {
        let (here, path) = (Span::mixed_site(), profile.options.path());
        let (lines, function) = (calls::lines(here), calls::function(here));
        let name = profile.options.name(profile.function.name());
        let file = profile.function.sig.fn_token.span.file();
        let setters = profile.options.setters(&lines);
        let rows = self.0.iter().map(|Line { number, text }| {
            let number = Literal::usize_unsuffixed(*number);
            quote!(#lines::Line::new(#number, #text))
        });
        quote! {
            use #path::marks::expansion as #lines;
            static #function: #lines::Function =
                #lines::Function::new(#name, ::core::module_path!(), #file, &[#(#rows),*]) #setters;
        }
    }
}

/// The lines of a body's source after its opening brace, which is on the line `first`.
fn source(body: &str, first: usize) -> impl Iterator<Item = Line> {
    let behind = body.lines().skip(1).filter(|line| !line.trim().is_empty());
    let shared = behind.map(indentation).min().unwrap_or_default();
    let line = move |(index, text): (usize, &str)| {
        let text = if index == 0 { text.trim() } else { text.get(shared..).unwrap_or_default().trim_end() };
        Line { number: first + index, text: text.to_owned() }
    };
    // Nothing but the brace usually stands on that line: then the signature stands for it.
    body.lines().enumerate().map(line).filter(move |line| line.number > first || !line.text.is_empty())
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Text of a line without source: the code up to its first brace.
fn first_line(code: &str) -> String {
    let line = code.lines().next().unwrap_or_default();
    match line.split_once('{') {
        Some((head, _)) => format!("{head}{{"),
        None => line.to_owned(),
    }
}

/// A signature with its parameters as written, if their source is available.
fn as_written(vis: &impl ToTokens, sig: &Signature) -> Option<String> {
    let Signature { constness, asyncness, safety, abi, fn_token, ident, generics, output, .. } = sig;
    let (span, bounds) = (sig.paren_token.span.join(), &generics.where_clause);
    let source = span.source_text().filter(|text| text.starts_with('(') && text.ends_with(')'))?;
    let inputs: Vec<_> = source.split_whitespace().collect();
    let mut line = Readable::default();
    line.write(quote!(#vis #constness #asyncness #safety #abi #fn_token #ident #generics));
    line.token(&inputs.join(" "), span.start(), span.end());
    line.write(quote!(#output #bounds));
    Some(line.text)
}

/// Code in one line, with a space wherever the source has whitespace.
fn readable(code: TokenStream) -> String {
    let mut line = Readable::default();
    line.write(code);
    line.text
}

#[derive(Default)]
struct Readable {
    text: String,
    /// Where the last token ends, if a space may follow it.
    end: Option<LineColumn>,
}

impl Readable {
    fn write(&mut self, code: TokenStream) {
        for tree in code {
            match tree {
                TokenTree::Group(group) => self.group(&group),
                token => self.token(&token.to_string(), token.span().start(), token.span().end()),
            }
        }
    }

    fn group(&mut self, group: &Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => return self.write(group.stream()),
        };
        // Both signs may have the span of the whole group.
        let (start, end) = (group.span_open().start(), group.span_close().end());
        self.token(open, start, LineColumn { column: start.column + 1, ..start });
        self.write(group.stream());
        self.token(close, LineColumn { column: end.column.saturating_sub(1), ..end }, end);
    }

    fn token(&mut self, text: &str, start: LineColumn, end: LineColumn) {
        let is_apart = self.end.is_some_and(|end| end != start);
        self.text.extend(is_apart.then_some(' '));
        self.text.push_str(text);
        // Both tokens of a lifetime may have the span of the whole lifetime.
        self.end = (text != "'").then_some(end);
    }
}
