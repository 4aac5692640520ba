//! A ValidatingAdmissionPolicy and its bindings as they are written: what they are about, and what becomes of a write. Read once,
//! and again when they change.

use kinds::Map;
use kinds::resources::label_selectors::requirements;
use policy::objects::decode::{List, Text};
use policy::objects::strict;
use portcullis_apimachinery::selector::LabelRequirement;
use serde::Deserialize;

use crate::admission::matching::{MatchText, Matching};
use crate::match_conditions::policies::{Fault, Program, Texts};
use crate::registry::meta;

/// A policy.
pub(super) struct Policy {
    pub(super) name: String,
    /// The match criteria.
    pub(super) matching: Matching,
    /// The expressions as they are written.
    pub(super) texts: Texts,
    /// The compiled expressions, or why they cannot be compiled.
    pub(super) program: Result<Program, String>,
    /// Whether a write goes on when the policy fails.
    pub(super) ignores_failure: bool,
}

/// A binding, which puts a policy into effect.
pub(super) struct Binding {
    pub(super) name: String,
    /// The name of the policy.
    pub(super) policy: String,
    /// Further match criteria; none to match all that the policy matches.
    pub(super) matching: Option<Matching>,
    /// The reference to the parameters.
    pub(super) params: Option<ParamRef>,
    /// The `validationActions`.
    pub(super) actions: Vec<Action>,
}

/// A reference to the parameters of a policy (`paramRef`).
pub(super) struct ParamRef {
    /// The namespace; empty for that of the write.
    pub(super) namespace: String,
    pub(super) select: Select,
    /// Whether a write goes on without parameters.
    pub(super) allows_none: bool,
}

/// Which objects the parameters are.
pub(super) enum Select {
    Name(String),
    Labels(Vec<LabelRequirement>),
}

/// A validation action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It is refused.
    Deny,
    /// The client is warned.
    Warn,
    /// It is noted in the audit log.
    Audit,
}

impl Action {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }

    /// The action in metrics.
    pub(super) fn enforced(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Warn => "warn",
            Self::Audit => "audit",
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct PolicyText<'a> {
    match_constraints: MatchText<'a>,
    failure_policy: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct BindingText<'a> {
    policy_name: Text<'a>,
    param_ref: Option<ParamText<'a>>,
    match_resources: Option<MatchText<'a>>,
    validation_actions: List<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct ParamText<'a> {
    name: Text<'a>,
    namespace: Text<'a>,
    selector: Option<Map>,
    parameter_not_found_action: Text<'a>,
}

/// Reads a policy. Takes time: expressions are compiled.
///
/// # Errors
/// It is not known what it is for.
pub(super) fn read_policy(object: &Map) -> Result<Vec<Policy>, String> {
    let spec = spec(object)?;
    let text: PolicyText<'_> = strict::from_map(spec).map_err(|error| error.to_string())?;
    let texts = Texts::of(spec)?;
    let told = |faults: Vec<Fault>| {
        let told =
            faults.into_iter().map(|fault| format!("{}: compilation error: {}", fault.field, fault.why));
        told.collect::<Vec<_>>().join("; ")
    };
    Ok(vec![Policy {
        name: meta::text(object, "name").to_owned(),
        matching: Matching::of_policy(&text.match_constraints)?,
        program: Program::compile(&texts).map_err(told),
        texts,
        ignores_failure: text.failure_policy == "Ignore",
    }])
}

/// Reads a binding.
///
/// # Errors
/// It is not known what it is for.
pub(super) fn read_binding(object: &Map) -> Result<Vec<Binding>, String> {
    let text: BindingText<'_> = strict::from_map(spec(object)?).map_err(|error| error.to_string())?;
    let action = |action: &Text<'_>| match &**action {
        "Deny" => Ok(Action::Deny),
        "Warn" => Ok(Action::Warn),
        "Audit" => Ok(Action::Audit),
        other => Err(format!("unknown validation action {other:?}")),
    };
    Ok(vec![Binding {
        name: meta::text(object, "name").to_owned(),
        policy: text.policy_name.to_string(),
        matching: text.match_resources.as_ref().map(Matching::of_policy).transpose()?,
        params: text.param_ref.as_ref().map(ParamRef::of).transpose()?,
        actions: text.validation_actions.iter().map(action).collect::<Result<_, _>>()?,
    }])
}

fn spec(object: &Map) -> Result<&Map, String> {
    object.get("spec").and_then(|spec| spec.as_object()).ok_or_else(|| "it has no spec".to_owned())
}

impl ParamRef {
    fn of(text: &ParamText<'_>) -> Result<Self, String> {
        let select = match (&*text.name, &text.selector) {
            ("", Some(selector)) => Select::Labels(
                requirements(selector).ok_or_else(|| "paramRef.selector is no label selector".to_owned())?,
            ),
            (name, None) if !name.is_empty() => Select::Name(name.to_owned()),
            _ => return Err("paramRef has not exactly one of name and selector".to_owned()),
        };
        let namespace = text.namespace.to_string();
        Ok(Self { namespace, select, allows_none: text.parameter_not_found_action == "Allow" })
    }
}
