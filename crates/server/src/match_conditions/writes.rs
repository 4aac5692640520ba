//! Match conditions of admission webhooks: expressions over a write, with the variables `request`, `object`, `oldObject` and
//! `authorizer`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::checks::Checks;
use super::{Conditions, Matched};
#[cfg(feature = "cel")]
use super::{authorizer, compile, evaluate};

/// What is wrong with match conditions of admission webhooks that cannot be compiled, by expression. Takes time for each: not
/// for a thread that serves requests.
pub fn admission_faults(expressions: Vec<String>) -> BTreeMap<String, String> {
    let compiled = AdmissionConditions::compile(&expressions);
    let faults = compiled.err().unwrap_or_default();
    let told = |(at, fault): (usize, String)| {
        let fault = fault.strip_prefix("compilation failed: ").unwrap_or(&fault).to_owned();
        Some((expressions.get(at)?.clone(), fault))
    };
    faults.into_iter().filter_map(told).collect()
}

/// The match conditions of an admission webhook, which must all be true.
#[derive(Debug, Default)]
pub struct AdmissionConditions {
    conditions: Conditions,
    /// Whether they ask the authorizers, and may be evaluated several times for a write.
    #[cfg(feature = "cel")]
    asks: bool,
}

/// A write, as conditions see it.
pub struct Write<'a> {
    /// The request, without its objects.
    pub request: &'a Map<String, Value>,
    /// The new object; none for a delete.
    pub object: Option<&'a Map<String, Value>>,
    /// The stored object; none for a create.
    pub old: Option<&'a Map<String, Value>>,
}

impl AdmissionConditions {
    /// Returns whether there are no conditions, so that all writes match.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }
}

#[cfg(feature = "cel")]
impl AdmissionConditions {
    /// Compiles expressions.
    ///
    /// # Errors
    /// The index and the error of each invalid expression.
    pub fn compile(expressions: &[String]) -> Result<Self, Vec<(usize, String)>> {
        let conditions = Conditions::of(expressions, compile::compile_admission(expressions))?;
        let asks = conditions.conditions.iter().any(|(_, condition)| {
            [authorizer::AUTHORIZER, authorizer::REQUEST_RESOURCE]
                .into_iter()
                .any(|name| condition.reads_variable(name))
        });
        Ok(Self { conditions, asks })
    }

    /// Evaluates the conditions for a write. Objects that no condition reads are not looked at. If a check has no answer yet, so
    /// that a question is open, the result does not count.
    pub fn evaluate(&self, write: &Write<'_>, checks: &Arc<Checks>) -> Matched {
        let reads = |at: usize| {
            let mut conditions = self.conditions.conditions.iter();
            conditions.any(|(_, condition)| condition.reads().get(at).is_some_and(|reads| *reads))
        };
        let (object, old) = (write.object.filter(|_| reads(0)), write.old.filter(|_| reads(1)));
        let variables = [("request", Some(write.request)), ("object", object), ("oldObject", old)];
        let mut request = evaluate::Request::of_write(variables);
        if self.asks {
            request.declare_authorizer(authorizer::variables(checks, write.request));
            request.share(checks.rounds());
        }
        self.conditions.matched(&request)
    }
}

#[cfg(not(feature = "cel"))]
impl AdmissionConditions {
    /// Returns an error for every expression: this program was built without feature `cel`.
    ///
    /// # Errors
    /// For every expression.
    pub fn compile(expressions: &[String]) -> Result<Self, Vec<(usize, String)>> {
        Conditions::compile(expressions).map(|conditions| Self { conditions })
    }

    /// Matches all writes, because there are no conditions.
    pub fn evaluate(&self, _write: &Write<'_>, _checks: &Arc<Checks>) -> Matched {
        Matched::Yes
    }
}
