//! Lines with two lists of rules: whether one covers the other (RB-65 to RB-67).

use portcullis_policy::objects::rbac::PolicyRule;
use portcullis_policy::rbac::covers;
use serde::{Deserialize, Serialize};

use super::{Answering, Parsing, decoded, unless_equal};

/// Answers with the comparison of the escalation check.
#[derive(Clone, Copy, Debug)]
pub struct Covers;

/// The fields of a line.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    covers: Option<bool>,
    owner: Option<Vec<PolicyRule>>,
    servant: Option<Vec<PolicyRule>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uncovered: Option<Vec<PolicyRule>>,
}

impl Line {
    fn answer(&self) -> (bool, Vec<PolicyRule>) {
        covers(self.owner.as_deref().unwrap_or_default(), self.servant.as_deref().unwrap_or_default())
    }
}

impl Answering for Covers {
    type Question<'l> = Line;

    fn parse(&self, line: &str, parsing: Parsing) -> Result<Line, String> {
        let parsed: Line = decoded(line)?;
        if parsing == Parsing::WithAnswer && parsed.covers.is_none() {
            return Err("covers: is missing: --check has nothing to compare with".to_owned());
        }
        Ok(parsed)
    }

    fn answer(&self, line: &Line) -> String {
        let (covers, uncovered) = line.answer();
        let line = Line { covers: Some(covers), uncovered: Some(uncovered), ..line.clone() };
        // Serializing strings, lists and flags cannot fail.
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// The lists are compared as multisets.
    fn difference(&self, line: &Line) -> Option<String> {
        let (covers, mut answered) = line.answer();
        let mut recorded = line.uncovered.clone().unwrap_or_default();
        recorded.sort();
        answered.sort();
        unless_equal("covers", line.covers?, covers)
            .or_else(|| (recorded != answered).then(|| format!("uncovered: answered {answered:?}")))
    }
}
