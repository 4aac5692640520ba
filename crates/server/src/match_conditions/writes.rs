//! Match conditions of admission webhooks: expressions over a write, with the variables `request`, `object` and `oldObject`.
//!
//! DIVERGES: the variable `authorizer` is not supported; a condition that reads it cannot be compiled.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

#[cfg(feature = "cel")]
use super::evaluate;
use super::{Conditions, Matched};

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
pub struct AdmissionConditions(Conditions);

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
        self.0.is_empty()
    }
}

#[cfg(feature = "cel")]
impl AdmissionConditions {
    /// Compiles expressions.
    ///
    /// # Errors
    /// The index and the error of each invalid expression.
    pub fn compile(expressions: &[String]) -> Result<Self, Vec<(usize, String)>> {
        Conditions::of(expressions, evaluate::compile_admission(expressions)).map(Self)
    }

    /// Evaluates the conditions for a write. Objects that no condition reads are not looked at.
    pub fn evaluate(&self, write: &Write<'_>) -> Matched {
        let reads = |at: usize| {
            let mut conditions = self.0.conditions.iter();
            conditions.any(|(_, condition)| condition.reads().get(at).is_some_and(|reads| *reads))
        };
        let (object, old) = (write.object.filter(|_| reads(0)), write.old.filter(|_| reads(1)));
        let variables = [("request", Some(write.request)), ("object", object), ("oldObject", old)];
        self.0.matched(&evaluate::Request::of_write(variables))
    }
}

#[cfg(not(feature = "cel"))]
impl AdmissionConditions {
    /// Returns an error for every expression: this program was built without feature `cel`.
    ///
    /// # Errors
    /// For every expression.
    pub fn compile(expressions: &[String]) -> Result<Self, Vec<(usize, String)>> {
        Conditions::compile(expressions).map(Self)
    }

    /// Matches all writes, because there are no conditions.
    pub fn evaluate(&self, _write: &Write<'_>) -> Matched {
        Matched::Yes
    }
}
