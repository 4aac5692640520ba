//! CEL expressions: match conditions, which select the requests a webhook is called for (AC-100 to AC-110), those of
//! admission webhooks in `writes`, those of policies in `policies`, those about tokens of issuers in `claims`, and selectors of
//! devices, which are only compiled: the scheduler evaluates them.
//!
//! Expressions are parsed and checked when the configuration is loaded, on a thread with a large stack because
//! expressions nest. An evaluation error is never treated as "does not match".
//!
//! DIVERGES: cost is not computed as in Kubernetes (AC-102). The size and nesting of expressions, the iterations of
//! comprehensions, the size of the values that they make, and the size of the request are bounded instead.

#[cfg(feature = "cel")]
mod authorizer;
#[cfg(feature = "cel")]
mod check;
pub mod checks;
pub mod claims;
#[cfg(feature = "cel")]
mod compile;
#[cfg(feature = "cel")]
mod context;
#[cfg(feature = "cel")]
mod evaluate;
#[cfg(feature = "cel")]
mod growth;
#[cfg(feature = "cel")]
mod macros;
#[cfg(feature = "cel")]
mod objects;
#[cfg(feature = "cel")]
mod parts;
pub mod policies;
#[cfg(feature = "cel")]
mod review_values;
mod rules;
#[cfg(feature = "cel")]
mod selection;
#[cfg(feature = "cel")]
mod types;
mod writes;

#[cfg(feature = "cel")]
use compile::Expression;
pub use rules::RULES;
pub use writes::{AdmissionConditions, Write, admission_faults};

use std::collections::BTreeMap;

use policy::review::AccessReview;
#[cfg(feature = "cel")]
use policy::rules::aggregate;

/// What is wrong with selectors of devices that cannot be compiled, by expression. Takes time for each: not for a thread that
/// serves requests. Without feature `cel` nothing is found.
pub fn selector_faults(expressions: Vec<String>) -> BTreeMap<String, String> {
    #[cfg(feature = "cel")]
    {
        let checked = compile::check_selectors(&expressions);
        let both = expressions.into_iter().zip(checked);
        both.filter_map(|(text, checked)| checked.err().map(|fault| (text, fault))).collect()
    }
    #[cfg(not(feature = "cel"))]
    {
        drop(expressions);
        BTreeMap::new()
    }
}

/// The match conditions of one webhook, which must all be true.
#[derive(Debug, Default)]
pub struct Conditions {
    #[cfg(feature = "cel")]
    conditions: Vec<(String, Expression)>,
}

/// The result of matching a request (AC-108).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matched {
    /// All are true: the webhook is called.
    Yes,
    /// One is false: the webhook is skipped.
    No {
        /// Whether an earlier condition failed.
        failed: bool,
    },
    /// None is false, and at least one failed, with these errors.
    Failed(String),
}

#[cfg(feature = "cel")]
impl Conditions {
    /// Compiles expressions (AC-88, AC-101).
    ///
    /// # Errors
    /// The index and the error of each invalid expression.
    pub fn compile(expressions: &[String]) -> Result<Self, Vec<(usize, String)>> {
        Self::of(expressions, compile::compile(expressions))
    }

    fn of(
        expressions: &[String],
        compiled: Vec<Result<Expression, String>>,
    ) -> Result<Self, Vec<(usize, String)>> {
        let mut conditions = Vec::new();
        let mut errors = Vec::new();
        for (at, compiled) in compiled.into_iter().enumerate() {
            match (compiled, expressions.get(at)) {
                (Ok(compiled), Some(text)) => conditions.push((text.clone(), compiled)),
                (Ok(_), None) => {}
                (Err(error), _) => errors.push((at, format!("compilation failed: {error}"))),
            }
        }
        if errors.is_empty() { Ok(Self { conditions }) } else { Err(errors) }
    }

    /// Returns whether there are no conditions, so that all requests match (AC-109).
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Evaluates the conditions for a request (AC-108).
    pub fn evaluate(&self, review: &AccessReview) -> Matched {
        let request = match evaluate::Request::of(review) {
            Ok(request) => request,
            Err(error) => return Matched::Failed(error),
        };
        self.matched(&request)
    }

    fn matched(&self, request: &evaluate::Request<'_>) -> Matched {
        let mut errors = Vec::new();
        for (text, condition) in &self.conditions {
            match request.evaluate(condition) {
                Ok(true) => {}
                Ok(false) => return Matched::No { failed: !errors.is_empty() },
                // AC-110
                Err(error) => errors
                    .push(format!("cel evaluation error: expression '{text}' resulted in error: {error}")),
            }
        }
        aggregate(&errors).map_or(Matched::Yes, Matched::Failed)
    }
}

#[cfg(not(feature = "cel"))]
impl Conditions {
    /// Returns an error for every expression: this program was built without feature `cel`.
    ///
    /// # Errors
    /// For every expression.
    pub fn compile(expressions: &[String]) -> Result<Self, Vec<(usize, String)>> {
        let why = "this program was built without feature cel, which match conditions need";
        let errors: Vec<_> = (0..expressions.len()).map(|at| (at, why.to_owned())).collect();
        if errors.is_empty() { Ok(Self::default()) } else { Err(errors) }
    }

    /// Returns whether there are no conditions, so that all requests match (AC-109).
    pub fn is_empty(&self) -> bool {
        true
    }

    /// Matches all requests, because there are no conditions.
    pub fn evaluate(&self, _review: &AccessReview) -> Matched {
        Matched::Yes
    }
}
