//! The attribute beneath another attribute of `toma`: finds the body in the output of that one.
//!
//! Generated code belongs to no line of the user's, so only the body gets a frame. Both orders of attributes give the
//! same records.

use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprClosure, ExprMethodCall, Item, Stmt, UseTree};

/// True if these are the statements of an expansion, which begin with one import.
pub(super) fn is(stmts: &[Stmt]) -> bool {
    let Some(Stmt::Item(Item::Use(import))) = stmts.first() else { return false };
    let mut tree = &import.tree;
    while let UseTree::Path(path) = tree {
        tree = &path.tree;
    }
    matches!(tree, UseTree::Rename(last) if last.ident == "__private" && last.rename == "__toma")
}

/// Applies `mark` to the body in the statements. There is one body, wherever its loop calls it from.
pub(super) fn expand(stmts: Vec<Stmt>, mark: impl FnMut(Block) -> Block) -> Vec<Stmt> {
    let mut bodies = Bodies(mark);
    let visit = |mut stmt| {
        bodies.visit_stmt_mut(&mut stmt);
        stmt
    };
    stmts.into_iter().map(visit).collect()
}

/// Finds bodies by the methods that run them.
struct Bodies<F>(F);

impl<F: FnMut(Block) -> Block> VisitMut for Bodies<F> {
    fn visit_expr_method_call_mut(&mut self, call: &mut ExprMethodCall) {
        let method = call.method.to_string();
        let is = |form: &str| method.strip_prefix(form).is_some_and(|rest| FORMS.contains(&rest));
        let body = match call.args.last_mut() {
            Some(Expr::Async(attempt)) if method == "attempt" || method == "agreed" => {
                Some(&mut attempt.block)
            }
            Some(Expr::Closure(closure)) if is("run_") => body_of(closure),
            Some(Expr::Closure(closure)) if is("undo_") => body_of(closure).and_then(called_last),
            _ => None,
        };
        match body {
            Some(body) => *body = (self.0)(body.clone()),
            None => visit_mut::visit_expr_method_call_mut(self, call),
        }
    }
}

const FORMS: [&str; 3] = ["batch", "range", "chunked"];

fn body_of(closure: &mut ExprClosure) -> Option<&mut Block> {
    if let Expr::Block(body) = &mut *closure.body { Some(&mut body.block) } else { None }
}

/// Returns the body of the closure if the last statement is `Some((|| ..)())`.
fn called_last(block: &mut Block) -> Option<&mut Block> {
    let Some(Stmt::Expr(Expr::Call(some), None)) = block.stmts.last_mut() else { return None };
    let Some(Expr::Call(attempt)) = some.args.first_mut() else { return None };
    let Expr::Paren(closure) = &mut *attempt.func else { return None };
    if let Expr::Closure(closure) = &mut *closure.expr { body_of(closure) } else { None }
}
