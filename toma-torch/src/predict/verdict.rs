//! Verdict on splitting a call, by the program that was judged.

use toma_plan::{Combined, Coupling, Judged};

use super::key::Purpose;

/// Effect of splitting a call.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// Results of pieces make up the result of the whole in this way.
    Splits(Combined),
    /// As `Splits`, but batch norm takes the statistics of each piece.
    Statistics(Combined),
    /// Results of pieces do not make up the whole, or that is not certain; with the reason.
    Never(String),
}

impl Verdict {
    /// Decides by the judged program, or by the reason why there is none.
    pub(super) fn of(judged: Result<&Judged, &str>, purpose: Purpose) -> Self {
        match judged {
            Ok(judged) => Self::of_program(judged, purpose),
            Err(_) if purpose.is_given().is_some() => {
                Self::Splits(purpose.is_given().unwrap_or(Combined::Mean))
            }
            Err(why) => Self::Never(format!("{why}{}", purpose.advice())),
        }
    }

    fn of_program(judged: &Judged, purpose: Purpose) -> Self {
        let rows = judged.rows();
        let given = purpose.is_given();
        let combined = match (&rows.combined, given) {
            (Ok(combined), _) => *combined,
            (Err(coupled), Some(given)) if is_undecided(coupled.coupling) => given,
            (Err(coupled), _) if is_undecided(coupled.coupling) => {
                return Self::Never(format!("{coupled}{}", purpose.advice()));
            }
            (Err(coupled), _) => return Self::Never(coupled.to_string()),
        };
        match (why_not(combined, purpose), rows.batch_statistics.is_empty(), given) {
            (Some(why), ..) => Self::Never(why),
            (None, true, _) => Self::Splits(combined),
            (None, false, Some(_)) => Self::Statistics(combined),
            (None, false, None) => Self::Never(format!(
                "batch norm takes the statistics of all rows{}",
                accepts_statistics(combined)
            )),
        }
    }
}

/// True for a coupling that contradicts nothing, so that a loss that the caller declares is trusted.
fn is_undecided(coupling: Coupling) -> bool {
    use Coupling::{OtherOrder, OwnLabels, ReadNumber, Unknown, Written};
    matches!(coupling, Unknown | OtherOrder | Written | ReadNumber | OwnLabels)
}

fn accepts_statistics(combined: Combined) -> &'static str {
    match combined {
        Combined::Mean | Combined::MeanOrCounted => ": `Loss::Mean` accepts those of each piece",
        Combined::Sum => ": `Loss::Sum` accepts those of each piece",
        _ => "",
    }
}

/// Returns the reason why pieces do not make up the whole as `purpose` needs it.
fn why_not(combined: Combined, purpose: Purpose) -> Option<String> {
    use Combined as C;
    let is_right = match purpose {
        Purpose::Output => combined == C::Rows,
        Purpose::Found => matches!(combined, C::Mean | C::MeanOrCounted | C::Sum),
        Purpose::Mean => matches!(combined, C::Mean | C::MeanOrCounted),
        Purpose::Sum => combined == C::Sum,
        Purpose::Counted => matches!(combined, C::Counted | C::MeanOrCounted),
    };
    let why = match combined {
        _ if is_right => return None,
        _ if purpose == Purpose::Output => "the output is made of all rows together",
        C::Sum => "the loss is a sum over the rows: `Loss::Sum` adds those of pieces",
        C::Counted => {
            "the loss is a mean over counted elements: `Loss::Counted` weighs pieces by the counts of their rows"
        }
        C::Rows => "the loss has a value for each row",
        _ => "the loss is a mean over all rows: `Loss::Mean` weighs pieces by their rows",
    };
    Some(why.to_owned())
}
