//! Expressions about the tokens of issuers: mappings and rules over the variable `claims`, and rules over the variable `user`.
//!
//! Claims have the type any, and numbers in them are doubles. Of `claims` itself only fields can be read: everything else, such
//! as `'x' in claims`, is an error for every token, as in Kubernetes.

#[cfg(feature = "cel")]
pub(super) mod functions;
mod outcome;

pub use self::outcome::Outcome;

use policy::User;
use serde_json::{Map, Value};

#[cfg(feature = "cel")]
use super::{check, compile, evaluate};

/// The purpose of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Gives the value of an attribute of the user, from `claims`.
    Mapping,
    /// Must be true of `claims`.
    ClaimRule,
    /// Must be true of `user`.
    UserRule,
}

/// A checked expression.
#[derive(Debug)]
pub struct Expression {
    #[cfg(feature = "cel")]
    compiled: compile::Expression,
}

/// The variables of an expression: the claims of a token, or its user.
pub struct Subject {
    #[cfg(feature = "cel")]
    request: evaluate::Request<'static>,
}

#[cfg(feature = "cel")]
impl Expression {
    /// Compiles expressions, one result for each. Takes time for each.
    pub fn compile(expressions: Vec<(String, Purpose)>) -> Vec<Result<Self, String>> {
        let checks: Vec<(String, compile::TokenCheck)> = expressions
            .into_iter()
            .map(|(text, purpose)| {
                let check: compile::TokenCheck = match purpose {
                    Purpose::Mapping => |expression| check::check_claims(expression, false),
                    Purpose::ClaimRule => |expression| check::check_claims(expression, true),
                    Purpose::UserRule => check::check_user,
                };
                (text, check)
            })
            .collect();
        let compiled = compile::compile_of_token(&checks).into_iter();
        compiled.map(|compiled| compiled.map(|compiled| Self { compiled })).collect()
    }

    /// Whether it reads a claim of this name.
    pub fn reads_claim(&self, name: &str) -> bool {
        functions::reads_claim(&self.compiled.parsed, name)
    }
}

#[cfg(feature = "cel")]
impl Subject {
    /// The claims of a token. Those whose names are no names of CEL can be read by their escaped names as well.
    pub fn claims(claims: &Map<String, Value>) -> Self {
        let escaped = claims.iter().filter_map(|(name, value)| Some((functions::escaped(name)?, value)));
        // The claim that has the name wins over the one that has it only escaped.
        let plain = claims.iter().map(|(name, value)| (name.clone(), value));
        Self { request: evaluate::Request::of_token("claims", escaped.chain(plain)) }
    }

    /// The user of a token.
    pub fn user(user: &User) -> Self {
        let fields = serde_json::json!({
            "username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
        });
        let fields = fields.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value));
        Self { request: evaluate::Request::of_token("user", fields) }
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// Why it cannot be evaluated. The text may show values of claims.
    pub fn value_of(&self, expression: &Expression) -> Result<Outcome, String> {
        self.request.evaluate_of_token(&expression.compiled).map(|value| functions::outcome(&value))
    }
}

#[cfg(not(feature = "cel"))]
impl Expression {
    /// Returns an error for every expression: this program was built without feature `cel`.
    pub fn compile(expressions: Vec<(String, Purpose)>) -> Vec<Result<Self, String>> {
        let why = "this program was built without feature cel, which expressions need";
        expressions.iter().map(|_| Err(why.to_owned())).collect()
    }

    /// Never, because there are no expressions.
    pub fn reads_claim(&self, _name: &str) -> bool {
        false
    }
}

#[cfg(not(feature = "cel"))]
impl Subject {
    /// The claims of a token.
    pub fn claims(_claims: &Map<String, Value>) -> Self {
        Self {}
    }

    /// The user of a token.
    pub fn user(_user: &User) -> Self {
        Self {}
    }

    /// Never a value, because there are no expressions.
    ///
    /// # Errors
    /// Always.
    pub fn value_of(&self, _expression: &Expression) -> Result<Outcome, String> {
        Err("built without feature cel".to_owned())
    }
}
