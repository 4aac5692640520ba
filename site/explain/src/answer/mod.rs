//! Answers one question about one set of objects. A pure function of its argument: nothing here panics, whatever the text is.
//!
//! It has no rules of its own: the engine of `portcullis_policy` decides and explains.

use std::collections::{BTreeMap, BTreeSet};

use portcullis_policy::objects::strict;
use portcullis_policy::review::{
    AccessReview, AccessStatus, NonResourceAttributes, ResourceAttributes, ReviewKind, ReviewMetadata,
    ReviewVersion,
};
use portcullis_policy::{EngineConfig, Kind, LiveEngine, Mode, Object, User};
use serde::{Deserialize, Serialize};

use crate::objects::{self, Piece};

/// The question from the page, as JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Asked {
    /// The objects of the cluster, as text, so that errors have its lines.
    objects: String,
    /// Whether to add the default RBAC policy (RB-80).
    #[serde(default)]
    default_policy: bool,
    /// The question.
    spec: Spec,
}

/// The `spec` of a SubjectAccessReview. A field that is not known is an error here: it would be a part of the question that plays
/// no part in the answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Spec {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    resource_attributes: Option<Resource>,
    non_resource_attributes: Option<Path>,
}

/// A request for a resource.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    verb: String,
    #[serde(default)]
    group: String,
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

/// A request for a path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Path {
    verb: String,
    path: String,
}

/// The decision, in the words of `portcullis explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Decision {
    /// The request is allowed. Objects that cannot be read could only add ways.
    Yes,
    /// Nothing allows the request.
    No,
    /// Nothing that can be read allows the request, and there are objects that cannot be read.
    Unknown,
}

/// The answer to a question.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// The decision.
    pub(crate) decision: Decision,
    /// The mode that decided; none where no mode did, and for group `system:masters`.
    pub(crate) by: Option<String>,
    /// The reason, as a user is told.
    pub(crate) reason: String,
    /// The explanation of each mode, for administrators.
    pub(crate) explanation: String,
    /// How many objects took part.
    pub(crate) read: usize,
    /// How many objects are of kinds that play no part in decisions.
    pub(crate) passed_over: usize,
    /// The objects that took no part because they cannot be read: where, and why. The first of them, if there are many.
    pub(crate) unreadable: Vec<String>,
    /// How many more there are.
    pub(crate) more_unreadable: usize,
}

/// The answer as the page reads it: the answer, or an object with the one field `error`.
pub(crate) fn written(answer: &Result<Answer, String>) -> String {
    let json = match answer {
        Ok(answer) => serde_json::to_string(answer),
        Err(error) => serde_json::to_string(&BTreeMap::from([("error", error)])),
    };
    json.unwrap_or_else(|error| format!(r#"{{"error": "the answer cannot be written: {error:?}"}}"#))
}

/// Answers a question.
///
/// # Errors
/// The question makes no sense, or the text with the objects is not JSON: what is wrong, where, and what to do.
pub(crate) fn to(question: &str) -> Result<Answer, String> {
    let asked: Asked =
        strict::from_str(question).map_err(|error| format!("the question cannot be read: {error}"))?;
    let review = review(asked.spec)?;
    let sender = User::default();
    let question = review
        .attributes(&sender)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;

    let config = EngineConfig {
        modes: vec![Mode::Node, Mode::Rbac],
        masters_first: true,
        default_policy: asked.default_policy,
        ..EngineConfig::default()
    };
    let engine = LiveEngine::new(&config).map_err(|error| error.to_string())?;
    let taken = take(&engine, &asked.objects)?;
    let attributes = question.attributes();
    let outcome = engine.authorize(&attributes);
    let status = AccessStatus::new(&question, &outcome);
    let decision = match (status.allowed, taken.unreadable.is_empty()) {
        (true, _) => Decision::Yes,
        (false, true) => Decision::No,
        (false, false) => Decision::Unknown,
    };
    Ok(Answer {
        decision,
        by: outcome.by.as_ref().map(Mode::to_string),
        reason: status.reason,
        explanation: engine.explain(&attributes).to_string(),
        read: taken.read.len(),
        passed_over: taken.passed_over,
        unreadable: taken.unreadable,
        more_unreadable: taken.more_unreadable,
    })
}

/// The review that asks the question. Everything is taken verbatim, as the API server does (WH-75).
fn review(spec: Spec) -> Result<AccessReview, String> {
    if spec.user.is_empty() {
        return Err("the user is missing: give a name, such as system:node:node-1".to_owned());
    }
    if let Some(asked) = &spec.resource_attributes {
        if asked.verb.is_empty() {
            return Err("the verb is missing: give one, such as get".to_owned());
        }
        if asked.resource.is_empty() {
            return Err("the resource is missing: give its plural, such as secrets".to_owned());
        }
    }
    if let Some(asked) = &spec.non_resource_attributes {
        if asked.verb.is_empty() {
            return Err("the verb is missing: give the method in lower case, such as get".to_owned());
        }
        if !asked.path.starts_with('/') {
            return Err(format!(
                "the path {:?} does not begin with a slash: give one such as /version",
                asked.path
            ));
        }
    }
    Ok(AccessReview {
        version: ReviewVersion::V1,
        kind: ReviewKind::SubjectAccessReview,
        metadata: ReviewMetadata::default(),
        user: User::new(spec.user, spec.groups),
        resource: spec.resource_attributes.map(|asked| ResourceAttributes {
            verb: asked.verb,
            group: asked.group,
            resource: asked.resource,
            subresource: asked.subresource,
            namespace: asked.namespace,
            name: asked.name,
            ..ResourceAttributes::default()
        }),
        non_resource: spec
            .non_resource_attributes
            .map(|asked| NonResourceAttributes { path: asked.path, verb: asked.verb }),
    })
}

/// How many unreadable objects are told apart. To find the line of one, the text before it is read once more.
const TOLD: usize = 20;

/// The objects that the engine took, and those that it did not.
#[derive(Debug, Default)]
struct Taken {
    /// The objects that take part: kind, namespace and name.
    read: BTreeSet<(Kind, String, String)>,
    passed_over: usize,
    unreadable: Vec<String>,
    more_unreadable: usize,
}

impl Taken {
    /// Notes an object that cannot be read.
    fn refuse(&mut self, fault: impl FnOnce() -> String) {
        if self.unreadable.len() < TOLD {
            self.unreadable.push(fault());
        } else {
            self.more_unreadable = self.more_unreadable.saturating_add(1);
        }
    }
}

/// Gives the objects of a text to the engine. They are all that there are.
fn take(engine: &LiveEngine, text: &str) -> Result<Taken, String> {
    let pieces = objects::find(text).map_err(|error| {
        format!("the objects are not JSON: {error}. Paste all of what `kubectl get -o json` prints")
    })?;
    let mut taken = Taken::default();
    let mut first: BTreeMap<_, &Piece<'_>> = BTreeMap::new();
    for piece in &pieces {
        let object = match Object::from_json(piece.json) {
            Ok(Some(object)) => object,
            Ok(None) => {
                taken.passed_over = taken.passed_over.saturating_add(1);
                continue;
            }
            Err(error) => {
                taken.refuse(|| piece.placed(text, error).to_string());
                continue;
            }
        };
        let kind = object.kind();
        let (namespace, name) = object.key();
        let key = (kind, namespace.to_owned(), name.to_owned());
        if let Some(first) = first.get(&key) {
            // Which of the two the cluster has is not known.
            engine.delete(kind, &key.1, &key.2);
            taken.read.remove(&key);
            taken.refuse(|| {
                let line = first.line(text);
                let fault = format!(
                    "this {kind} is on line {line} as well, so neither takes part: leave one of them out"
                );
                piece.fault(text, "metadata.name", fault)
            });
            continue;
        }
        first.insert(key.clone(), piece);
        match engine.apply(object) {
            Ok(_) => drop(taken.read.insert(key)),
            Err(error) => taken.refuse(|| piece.fault(text, "metadata.name", error.to_string())),
        }
    }
    engine.mark_complete();
    Ok(taken)
}

#[cfg(test)]
mod tests;
