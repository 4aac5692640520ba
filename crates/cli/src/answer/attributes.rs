//! Lines with a method and a URL: the attributes that the API server (AC-10 to AC-49) or a kubelet (KA-25 to KA-39a)
//! derives from them.

use portcullis_apimachinery::target::Target;
use portcullis_policy::features::FeatureGates;
use portcullis_policy::kubelet_api::{KubeletRequest, Settings};
use portcullis_policy::request_info::RequestInfo;
use portcullis_policy::{Attributes, User};
use serde_json::{Value, json};

use super::{Answering, Parsing, object, text, unless_equal};

/// Answers like the API server.
#[derive(Clone, Copy, Debug)]
pub struct RequestInfos;

/// Answers like a kubelet.
#[derive(Clone, Debug)]
pub struct KubeletAttributes {
    /// The node of the kubelet.
    pub node_name: String,
    /// The feature gates (KA-74).
    pub gates: FeatureGates,
}

fn question(line: &str) -> Result<Value, String> {
    let document = object(line)?;
    text(&document, "method")?;
    text(&document, "url")?;
    Ok(document)
}

fn parts(document: &Value) -> (&str, &str) {
    let part = |field| document.get(field).and_then(Value::as_str).unwrap_or_default();
    (part("method"), part("url"))
}

/// Returns the line with this answer, which replaces any recorded one.
fn completed(document: &Value, field: &str, value: Value) -> String {
    let mut document = document.clone();
    if let Some(fields) = document.as_object_mut() {
        ["info", "attributes", "error"].iter().for_each(|answer| drop(fields.remove(*answer)));
        fields.insert(field.to_owned(), value);
    }
    document.to_string()
}

impl RequestInfos {
    fn info(document: &Value) -> Result<Value, String> {
        let (method, url) = parts(document);
        let info = RequestInfo::parse_reference(method, url).map_err(|error| error.to_string())?;
        serde_json::to_value(&info).map_err(|error| error.to_string())
    }
}

impl Answering for RequestInfos {
    type Question<'l> = Value;

    fn parse(&self, line: &str, parsing: Parsing) -> Result<Value, String> {
        let document = question(line)?;
        let has_answer = document.get("info").is_some() || document.get("error").is_some();
        if parsing == Parsing::WithAnswer && !has_answer {
            return Err("info: is missing, and so is error: --check has nothing to compare with".to_owned());
        }
        Ok(document)
    }

    fn answer(&self, document: &Value) -> String {
        match Self::info(document) {
            Ok(info) => completed(document, "info", info),
            Err(error) => completed(document, "error", json!(error)),
        }
    }

    /// Error texts are compared by presence.
    fn difference(&self, document: &Value) -> Option<String> {
        match (Self::info(document), document.get("info")) {
            (Ok(info), Some(recorded)) => unless_equal("info", recorded, &info),
            (Ok(info), None) => Some(format!("info: recorded an error, answered {info}")),
            (Err(_), None) => None,
            (Err(error), Some(recorded)) => {
                Some(format!("info: recorded {recorded}, answered the error {error}"))
            }
        }
    }
}

impl KubeletAttributes {
    fn attributes(&self, document: &Value) -> Result<Value, String> {
        let (method, url) = parts(document);
        let target = Target::from_reference(url).map_err(|error| error.to_string())?;
        let request = KubeletRequest::new(method, target, &Settings::upstream(self.gates));
        let user = User::default();
        let sets = request.checks().flat_map(|check| check.attributes(&user, &self.node_name));
        Ok(sets.map(|set| form(&set)).collect())
    }
}

fn form(attributes: &Attributes<'_>) -> Value {
    let resource = attributes.resource.unwrap_or_default();
    json!({
        "verb": attributes.verb,
        "path": attributes.path,
        "resourceRequest": attributes.resource.is_some(),
        "group": resource.group,
        "version": resource.version,
        "resource": resource.resource,
        "subresource": resource.subresource,
        "namespace": resource.namespace,
        "name": resource.name,
    })
}

impl Answering for KubeletAttributes {
    type Question<'l> = Value;

    fn parse(&self, line: &str, parsing: Parsing) -> Result<Value, String> {
        let document = question(line)?;
        if parsing == Parsing::WithAnswer && document.get("attributes").is_none() {
            return Err("attributes: is missing: --check has nothing to compare with".to_owned());
        }
        self.attributes(&document).map_err(|error| format!("url: {error}"))?;
        Ok(document)
    }

    fn answer(&self, document: &Value) -> String {
        match self.attributes(document) {
            Ok(attributes) => completed(document, "attributes", attributes),
            Err(error) => completed(document, "error", json!(error)),
        }
    }

    fn difference(&self, document: &Value) -> Option<String> {
        match self.attributes(document) {
            Ok(answered) => unless_equal("attributes", document.get("attributes")?, &answered),
            Err(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_takes_the_place_of_the_one_that_the_line_holds() {
        let line = r#"{"method":"GET","url":"/%zz","info":{"verb":"get"},"attributes":[],"error":"x"}"#;
        let question = RequestInfos.parse(line, Parsing::Question).unwrap();
        let answer: Value = serde_json::from_str(&RequestInfos.answer(&question)).unwrap();
        assert!(answer.get("info").is_none() && answer.get("attributes").is_none(), "{answer}");
        assert!(answer["error"].as_str().is_some_and(|error| error != "x"), "{answer}");
    }
}
