//! SubjectAccessReview, LocalSubjectAccessReview and AdmissionReview, distinguished by their kind.

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::json;
use portcullis_policy::User;
use portcullis_policy::engine::Engine;
use portcullis_policy::restriction::review::AdmissionReview;
use portcullis_policy::review::{AccessReview, AccessStatus, Review, ReviewError};
use serde_json::Value;

use super::admission::{self, RecordedResponse};
use super::{Answering, Parsing, object, unless_equal};

/// Answers with the authorizer chain and NodeRestriction.
#[derive(Debug)]
pub struct AccessAndAdmission {
    /// The engine.
    pub engine: Engine,
}

/// A valid review.
#[derive(Debug)]
pub enum Question<'l> {
    /// An access review.
    Access(Box<AccessReview>, Option<RecordedStatus>),
    /// An admission review.
    Admission(Box<AdmissionReview<'l>>, Option<RecordedResponse>),
}

/// The fields of a recorded status that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedStatus {
    allowed: bool,
    denied: bool,
}

impl RecordedStatus {
    fn read(document: &Value) -> Result<Self, String> {
        let flag = |name: &str| match document.get("status").and_then(|status| status.get(name)) {
            Some(Value::Bool(value)) => Ok(Some(*value)),
            None | Some(Value::Null) => Ok(None),
            Some(_) => Err(format!("status.{name}: expected true or false")),
        };
        let allowed =
            flag("allowed")?.ok_or("status.allowed: is missing: --check has nothing to compare with")?;
        Ok(Self { allowed, denied: flag("denied")?.unwrap_or(false) })
    }
}

impl Answering for AccessAndAdmission {
    type Question<'l> = Question<'l>;

    fn parse<'l>(&self, line: &'l str, parsing: Parsing) -> Result<Question<'l>, String> {
        let types = json::type_meta(line).map_err(|error| error.to_string())?;
        if types.kind.as_deref() == Some("AdmissionReview") {
            return admission::parse(line, parsing)
                .map(|(review, recorded)| Question::Admission(Box::new(review), recorded));
        }
        let document = object(line)?;
        let review = access(&document)?;
        let recorded = match parsing {
            Parsing::Question => None,
            Parsing::WithAnswer => Some(RecordedStatus::read(&document)?),
        };
        Ok(Question::Access(Box::new(review), recorded))
    }

    fn answer(&self, question: &Question<'_>) -> String {
        match question {
            Question::Access(review, _) => {
                let status = self.status(review);
                // Serializing strings and flags cannot fail.
                serde_json::to_string(&review.answered(&status)).unwrap_or_default()
            }
            Question::Admission(review, _) => admission::answer(&self.engine, review),
        }
    }

    fn difference(&self, question: &Question<'_>) -> Option<String> {
        match question {
            Question::Access(review, recorded) => {
                let (recorded, status) = (recorded.as_ref()?, self.status(review));
                unless_equal("status.allowed", recorded.allowed, status.allowed)
                    .or_else(|| unless_equal("status.denied", recorded.denied, status.denied))
            }
            Question::Admission(review, recorded) => {
                admission::difference(&self.engine, review, recorded.as_ref()?)
            }
        }
    }
}

impl AccessAndAdmission {
    fn status(&self, review: &AccessReview) -> AccessStatus {
        let nobody = User::default();
        match review.attributes(&nobody) {
            Ok(read) => AccessStatus::new(&read, &self.engine.authorize(&read.attributes())),
            // Already validated; if that ever failed, the answer would be a denial.
            Err(errors) => AccessStatus { evaluation_error: invalid(&errors), ..AccessStatus::default() },
        }
    }
}

/// Parses a document as a review with a user and an answer.
///
/// # Errors
/// The document is of another kind, or invalid (WH-72, WH-73).
pub fn access(document: &Value) -> Result<AccessReview, String> {
    let review = match Review::read(document, None) {
        Ok(Review::Access(review)) if review.kind.names_subject() => review,
        Ok(Review::Access(review)) => return Err(unanswerable(review.kind.as_str())),
        Ok(Review::Rules(_)) => return Err(unanswerable("SelfSubjectRulesReview")),
        Err(ReviewError::WrongKind { .. }) => return Err(wrong_kind(document)),
        Err(error) => return Err(error.to_string()),
    };
    let errors = review.validate();
    if errors.is_empty() { Ok(review) } else { Err(invalid(&errors)) }
}

/// Returns the error for an unsupported kind, with the supported ones.
fn wrong_kind(document: &Value) -> String {
    let said = |field| document.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version) = (said("kind"), said("apiVersion"));
    let found = match (kind, api_version) {
        ("", _) => "kind: is missing".to_owned(),
        (_, "") => "apiVersion: is missing".to_owned(),
        _ => format!("kind: found {kind} of {api_version}"),
    };
    format!(
        "{found}; expected SubjectAccessReview or LocalSubjectAccessReview of authorization.k8s.io/v1 or v1beta1, or \
         AdmissionReview of admission.k8s.io/v1"
    )
}

fn unanswerable(kind: &str) -> String {
    format!(
        "kind: a {kind} is about whoever sends it, and a line has no sender: write a SubjectAccessReview that names the \
         user"
    )
}

fn invalid(errors: &[FieldError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}
