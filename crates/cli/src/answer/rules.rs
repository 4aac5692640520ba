//! Lines with a user, groups and a namespace: the rules of the user (RB-40, AC-59).

use portcullis_policy::User;
use portcullis_policy::engine::Engine;
use portcullis_policy::rules::RuleListing;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Answering, Parsing, decoded, unless_equal};

/// Lists rules with the authorizer chain.
#[derive(Debug)]
pub struct Rules {
    /// The engine.
    pub engine: Engine,
}

/// The fields of a line.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Line {
    query: Query,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Query {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    namespace: String,
}

impl Rules {
    fn listing(&self, query: &Query) -> RuleListing {
        let user = User::new(&*query.user, query.groups.iter().cloned());
        self.engine.rules_for(&user, &query.namespace)
    }
}

impl Answering for Rules {
    type Question<'l> = Line;

    fn parse(&self, line: &str, parsing: Parsing) -> Result<Line, String> {
        let parsed: Line = decoded(line)?;
        if parsing == Parsing::WithAnswer {
            let status =
                parsed.status.as_ref().ok_or("status: is missing: --check has nothing to compare with")?;
            RuleListing::deserialize(status).map_err(|error| format!("status: {error}"))?;
        }
        Ok(parsed)
    }

    fn answer(&self, line: &Line) -> String {
        let listing = self.listing(&line.query);
        // Serializing strings, lists and flags cannot fail.
        let mut status = serde_json::to_value(&listing).unwrap_or_default();
        if let (Some(error), Some(status)) = (listing.evaluation_error(), status.as_object_mut()) {
            status.insert("evaluationError".to_owned(), Value::String(error));
        }
        serde_json::to_string(&Line { status: Some(status), ..line.clone() }).unwrap_or_default()
    }

    /// Lists are compared as multisets, error texts by presence.
    fn difference(&self, line: &Line) -> Option<String> {
        let status = line.status.as_ref()?;
        let Ok(mut recorded) = RuleListing::deserialize(status) else {
            return Some("status: cannot be read".to_owned());
        };
        let mut answered = self.listing(&line.query);
        recorded.resource_rules.sort();
        answered.resource_rules.sort();
        recorded.non_resource_rules.sort();
        answered.non_resource_rules.sort();
        let error = status.get("evaluationError").and_then(Value::as_str).is_some_and(|e| !e.is_empty());
        unless_equal("status.incomplete", recorded.incomplete, answered.incomplete)
            .or_else(|| unless_equal("has evaluationError", error, !answered.errors.is_empty()))
            .or_else(|| {
                (recorded.resource_rules != answered.resource_rules)
                    .then(|| format!("status.resourceRules: answered {:?}", answered.resource_rules))
            })
            .or_else(|| {
                (recorded.non_resource_rules != answered.non_resource_rules)
                    .then(|| format!("status.nonResourceRules: answered {:?}", answered.non_resource_rules))
            })
    }
}
