//! Which requests a webhook is asked about: expressions over the request, in CEL (AC-100 to AC-110).
//!
//! An expression is parsed and checked when the configuration is loaded, on a thread with room for what its writer may
//! have nested. What cannot be evaluated for a request never lets the webhook be passed over as if it did not match.
//!
//! DIVERGES: cost is not counted as Kubernetes counts it (AC-102). The size of expressions, how deep they nest, how often
//! comprehensions go through a list, and the size of the request are bounded instead; macros with two variables and `optMap` are not known.

#[cfg(feature = "cel")]
mod check;
#[cfg(feature = "cel")]
mod evaluate;
#[cfg(feature = "cel")]
mod types;

#[cfg(feature = "cel")]
use evaluate::Expression;
#[cfg(feature = "cel")]
use policy::rules::aggregate;
#[cfg(feature = "cel")]
use portcullis_policy as policy;

use crate::webhook::review::Spec;

/// The conditions of one webhook, all of which must hold.
#[derive(Debug, Default)]
pub struct Conditions {
    #[cfg(feature = "cel")]
    conditions: Vec<(String, Expression)>,
}

/// What the conditions say to one request (AC-108).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matched {
    /// All hold: the webhook is asked.
    Yes,
    /// One does not hold: the webhook is passed over.
    No {
        /// Whether another failed before.
        failed: bool,
    },
    /// None is false, and one or more failed, like this.
    Failed(String),
}

#[cfg(feature = "cel")]
impl Conditions {
    /// Compiles expressions (AC-88, AC-101).
    ///
    /// # Errors
    /// For each that cannot be used: which one, and why.
    pub fn compile(expressions: &[String]) -> Result<Self, Vec<(usize, String)>> {
        let mut conditions = Vec::new();
        let mut errors = Vec::new();
        for (at, compiled) in evaluate::compile(expressions).into_iter().enumerate() {
            match (compiled, expressions.get(at)) {
                (Ok(compiled), Some(text)) => conditions.push((text.clone(), compiled)),
                (Ok(_), None) => {}
                (Err(error), _) => errors.push((at, format!("compilation failed: {error}"))),
            }
        }
        if errors.is_empty() { Ok(Self { conditions }) } else { Err(errors) }
    }

    /// Whether there are none, so that all requests match (AC-109).
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// What they say to a request (AC-108).
    pub fn evaluate(&self, spec: &Spec) -> Matched {
        let request = match evaluate::Request::of(spec) {
            Ok(request) => request,
            Err(error) => return Matched::Failed(error),
        };
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
    /// Refuses every expression: this program was built without feature `cel`.
    ///
    /// # Errors
    /// For each expression.
    pub fn compile(expressions: &[String]) -> Result<Self, Vec<(usize, String)>> {
        let why = "this program was built without feature cel, which match conditions need";
        let errors: Vec<_> = (0..expressions.len()).map(|at| (at, why.to_owned())).collect();
        if errors.is_empty() { Ok(Self::default()) } else { Err(errors) }
    }

    /// Whether there are none, so that all requests match (AC-109).
    pub fn is_empty(&self) -> bool {
        true
    }

    /// There are none, so that all requests match.
    pub fn evaluate(&self, _spec: &Spec) -> Matched {
        Matched::Yes
    }
}
