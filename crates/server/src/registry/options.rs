//! Request options: query parameters, and the DeleteOptions in the body of a delete (AP-14 to AP-16, AP-51, AP-52). The
//! options of lists and watches are in [`super::list_options`].

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};
use kinds::Kinds;
use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use serde_json::{Map, Value};

use crate::http::query::Query;
use crate::http::status::Status;
use portcullis_apimachinery::quote::quoted;

const META_GROUP: &str = "meta.k8s.io";
/// The longest `fieldManager`, in bytes (AP-16).
const MAX_FIELD_MANAGER: usize = 128;

/// How unknown and repeated fields are handled (AP-14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped silently.
    Ignore,
    /// They are errors.
    Strict,
    /// They are dropped, with a warning.
    #[default]
    Warn,
}

impl FieldValidation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Strict => "Strict",
            Self::Warn => "Warn",
        }
    }
}

/// The kind of write that the options are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH, other than apply.
    Patch,
    /// PATCH with apply.
    Apply,
}

impl WriteKind {
    fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// The options of a create, an update or a patch.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    /// Whether this is a dry run, which stores nothing (AP-15).
    pub(crate) is_dry_run: bool,
    /// How unknown fields are handled.
    pub(crate) validation: FieldValidation,
    /// The value of `fieldManager`; empty for none.
    pub(crate) manager: String,
    /// The manager of the written fields if `manager` is empty: the first part of the client's User-Agent.
    agent: String,
    /// Whether a configuration is applied, and `apply` records who manages what.
    pub(crate) is_apply: bool,
    /// Whether an applied configuration takes fields from their managers.
    pub(crate) forces: bool,
    /// Whether `validation` was asked for.
    names_validation: bool,
}

impl WriteOptions {
    /// The same options of a client with these headers.
    pub(crate) fn of_client(self, headers: &HeaderMap) -> Self {
        let agent = headers.get(USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
        let agent = agent.split(|byte| *byte == b'/').next().unwrap_or_default();
        let mut name = String::new();
        for character in String::from_utf8_lossy(agent).chars().filter(|character| !character.is_control()) {
            if name.len().saturating_add(character.len_utf8()) > MAX_FIELD_MANAGER {
                break;
            }
            name.push(character);
        }
        Self { agent: name, ..self }
    }

    /// The name of the manager of the fields that are written.
    pub(crate) fn manager(&self) -> &str {
        match (self.manager.as_str(), self.agent.as_str()) {
            ("", "") => "unknown",
            ("", agent) => agent,
            (manager, _) => manager,
        }
    }

    /// The document of these options, as admission webhooks see it.
    pub(crate) fn document(&self, kind: &str) -> Map<String, Value> {
        let mut document = document(kind, self.is_dry_run);
        if !self.manager.is_empty() {
            document.insert("fieldManager".to_owned(), self.manager.as_str().into());
        }
        if self.names_validation {
            document.insert("fieldValidation".to_owned(), self.validation.as_str().into());
        }
        document
    }
}

fn document(kind: &str, is_dry_run: bool) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("kind".to_owned(), kind.into());
    document.insert("apiVersion".to_owned(), format!("{META_GROUP}/v1").into());
    if is_dry_run {
        document.insert("dryRun".to_owned(), Value::from(vec!["All"]));
    }
    document
}

/// Parses the options of a write.
///
/// # Errors
/// 422 with all errors in the options.
pub(crate) fn write(query: &Query, kind: WriteKind) -> Result<WriteOptions, Status> {
    let mut errors = FieldErrors::new();
    let manager = query.first("fieldManager").unwrap_or_default();
    match (kind, query.first("force")) {
        (WriteKind::Apply, _) if manager.is_empty() => {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        (WriteKind::Patch, Some(_)) => {
            errors.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
        }
        _ => {}
    }
    if manager.len() > MAX_FIELD_MANAGER {
        errors.push(FieldError::too_long("fieldManager", MAX_FIELD_MANAGER));
    }
    for c in manager.chars().filter(|c| c.is_control()) {
        let detail = "should only contain printable characters";
        errors.push(FieldError::invalid("fieldManager", quoted(&c.to_string()), detail));
    }
    let dry_run: Vec<&str> = query.values("dryRun").collect();
    errors.extend(dry_run_error(&dry_run));
    let validation = query.first("fieldValidation").unwrap_or_default();
    let names_validation = !validation.is_empty();
    let validation = match validation {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            let known = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported("fieldValidation", quoted(other), &known));
            FieldValidation::Strict
        }
    };
    refuse(kind.options(), errors)?;
    Ok(WriteOptions {
        is_dry_run: !dry_run.is_empty(),
        validation,
        manager: manager.to_owned(),
        agent: String::new(),
        is_apply: kind == WriteKind::Apply,
        forces: query.first("force").is_some_and(is_true),
        names_validation,
    })
}

/// Returns the error for invalid options.
pub(crate) fn refuse(options: &str, errors: FieldErrors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid_object(META_GROUP, options, "", errors))
}

/// AP-15: every value must be `All`.
fn dry_run_error(values: &[impl AsRef<str>]) -> Option<FieldError> {
    let is_other = values.iter().any(|value| value.as_ref() != "All");
    let all: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
    is_other.then(|| FieldError::not_supported("dryRun", format!("{all:?}"), &["All"]))
}

/// The options of a delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    /// Whether this is a dry run, which deletes nothing.
    pub(crate) is_dry_run: bool,
    /// The grace period in seconds; never negative (AP-55).
    pub(crate) grace_period: Option<i64>,
    /// Whether to orphan dependents; deprecated in favor of `propagation`.
    pub(crate) orphan_dependents: Option<bool>,
    /// How dependents are deleted.
    pub(crate) propagation: Option<Propagation>,
    /// The required UID (AP-53).
    pub(crate) uid: Option<String>,
    /// The required resourceVersion (AP-53).
    pub(crate) resource_version: Option<String>,
    /// Whether to remove an object whose stored value cannot be read, and only such an object (ET-12).
    pub(crate) ignores_read_error: bool,
}

/// The option of a delete for a stored value that cannot be read (ET-12).
pub(crate) const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// How the dependents of a deleted object are handled (AP-52).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They lose their owner and stay.
    Orphan,
}

/// Delete options as they come, before anything is checked.
#[derive(Default)]
struct RawDeleteOptions {
    dry_run: Vec<String>,
    grace_period: Option<i64>,
    orphan_dependents: Option<bool>,
    propagation: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    has_preconditions: bool,
    ignores_read_error: bool,
}

impl DeleteOptions {
    /// Parses delete options from the query (AP-51).
    ///
    /// # Errors
    /// 400 for values that are not numbers, 422 for invalid options.
    pub(crate) fn from_query(query: &Query) -> Result<Self, Status> {
        let grace_period = query.first("gracePeriodSeconds").map(|text| {
            text.parse::<i64>().map_err(|error| {
                Status::bad_request(format!("gracePeriodSeconds: {}: {error}", quoted(text)))
            })
        });
        RawDeleteOptions {
            dry_run: query.values("dryRun").map(str::to_owned).collect(),
            grace_period: grace_period.transpose()?,
            orphan_dependents: query.first("orphanDependents").map(is_true),
            propagation: query.first("propagationPolicy").map(str::to_owned),
            ignores_read_error: query.first(IGNORE_READ_ERROR).is_some_and(is_true),
            ..RawDeleteOptions::default()
        }
        .checked()
    }

    /// Decodes delete options from a body (AP-51).
    ///
    /// # Errors
    /// 400 for another kind or fields of the wrong type, 422 for invalid options.
    pub(crate) fn from_body(body: &Map<String, Value>, kinds: &Kinds) -> Result<Self, Status> {
        let wrong = |field: &str| {
            Status::bad_request(format!(
                "DeleteOptions cannot be handled: the field {field} is of the wrong type"
            ))
        };
        let text = |fields: &Map<String, Value>, field: &str| match fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(field)),
        };
        if let Some(kind) = text(body, "kind")?.filter(|kind| !kind.is_empty() && kind != "DeleteOptions") {
            return Err(Status::bad_request(format!("expected DeleteOptions, got {}", quoted(&kind))));
        }
        let version = text(body, "apiVersion")?.unwrap_or_default();
        if !version.is_empty() && !is_registered(&version, kinds) {
            return Err(Status::bad_request(format!(
                "no kind DeleteOptions is registered for {}",
                quoted(&version)
            )));
        }
        let dry_run = match body.get("dryRun") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => values
                .iter()
                .map(|value| value.as_str().map(str::to_owned).ok_or_else(|| wrong("dryRun")))
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(wrong("dryRun")),
        };
        let grace_period = match body.get("gracePeriodSeconds") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_i64().ok_or_else(|| wrong("gracePeriodSeconds"))?),
        };
        let orphan_dependents = match body.get("orphanDependents") {
            None | Some(Value::Null) => None,
            Some(value) => Some(value.as_bool().ok_or_else(|| wrong("orphanDependents"))?),
        };
        let ignores_read_error = match body.get(IGNORE_READ_ERROR) {
            None | Some(Value::Null) => false,
            Some(value) => value.as_bool().ok_or_else(|| wrong(IGNORE_READ_ERROR))?,
        };
        let none = Map::new();
        let preconditions = match body.get("preconditions") {
            None | Some(Value::Null) => &none,
            Some(value) => value.as_object().ok_or_else(|| wrong("preconditions"))?,
        };
        RawDeleteOptions {
            dry_run,
            grace_period,
            orphan_dependents,
            propagation: text(body, "propagationPolicy")?,
            uid: text(preconditions, "uid")?,
            resource_version: text(preconditions, "resourceVersion")?,
            has_preconditions: body.get("preconditions").is_some_and(Value::is_object),
            ignores_read_error,
        }
        .checked()
    }

    /// The document of these options, as admission webhooks see it: with the grace period that the object will have, in
    /// seconds, if it has one.
    pub(crate) fn document(&self, grace_period: Option<i64>) -> Map<String, Value> {
        let mut document = document("DeleteOptions", self.is_dry_run);
        let mut set = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                document.insert(field.to_owned(), value);
            }
        };
        let preconditions = [("uid", &self.uid), ("resourceVersion", &self.resource_version)];
        let preconditions = preconditions.into_iter().filter_map(|(field, value)| {
            value.as_deref().map(|value| (field.to_owned(), Value::from(value)))
        });
        let preconditions: Map<String, Value> = preconditions.collect();
        let propagation = self.propagation.map(|propagation| match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        });
        set("gracePeriodSeconds", grace_period.or(self.grace_period).map(Value::from));
        set("preconditions", (!preconditions.is_empty()).then_some(Value::Object(preconditions)));
        set("orphanDependents", self.orphan_dependents.map(Value::from));
        set("propagationPolicy", propagation.map(Value::from));
        set(IGNORE_READ_ERROR, self.ignores_read_error.then_some(Value::Bool(true)));
        document
    }

    /// Returns whether dependents are orphaned; none if the options do not say.
    pub(crate) fn orphans(&self) -> Option<bool> {
        match (self.orphan_dependents, self.propagation) {
            (Some(orphan), _) => Some(orphan),
            (None, Some(propagation)) => Some(propagation == Propagation::Orphan),
            (None, None) => None,
        }
    }

    /// Returns whether dependents are deleted first; none if the options do not say.
    pub(crate) fn is_foreground(&self) -> Option<bool> {
        match (self.orphan_dependents, self.propagation) {
            (Some(_), _) => Some(false),
            (None, Some(propagation)) => Some(propagation == Propagation::Foreground),
            (None, None) => None,
        }
    }
}

impl RawDeleteOptions {
    fn checked(self) -> Result<DeleteOptions, Status> {
        let mut errors = FieldErrors::new();
        if self.propagation.is_some() && self.orphan_dependents.is_some() {
            let value = quoted(self.propagation.as_deref().unwrap_or_default());
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", value, detail));
        }
        let propagation = match self.propagation.as_deref() {
            None => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let known = ["Background", "Foreground", "Orphan"];
                errors.push(FieldError::not_supported("propagationPolicy", quoted(other), &known));
                None
            }
        };
        errors.extend(dry_run_error(&self.dry_run));
        let together = [
            ("dryRun", !self.dry_run.is_empty()),
            ("propagationPolicy", self.propagation.is_some()),
            ("orphanDependents", self.orphan_dependents.is_some()),
            ("gracePeriodSeconds", self.grace_period.is_some()),
            ("preconditions", self.has_preconditions),
        ];
        // Nothing of this can be done with an object that nobody can read.
        for (other, _) in together.iter().filter(|(_, is_set)| self.ignores_read_error && *is_set) {
            errors.push(read_error_option(&format!("cannot be set together with .{other}")));
        }
        refuse("DeleteOptions", errors)?;
        Ok(DeleteOptions {
            is_dry_run: !self.dry_run.is_empty(),
            // AP-55: a negative period counts as one second.
            grace_period: self.grace_period.map(|seconds| if seconds < 0 { 1 } else { seconds }),
            orphan_dependents: self.orphan_dependents,
            propagation,
            uid: self.uid,
            resource_version: self.resource_version,
            ignores_read_error: self.ignores_read_error,
        })
    }
}

/// The error for an [`IGNORE_READ_ERROR`] that cannot be met.
pub(crate) fn read_error_option(why: &str) -> FieldError {
    FieldError::invalid(IGNORE_READ_ERROR, "true", why)
}

/// Returns whether DeleteOptions exist in this API version, as they do in every served group (AP-51).
fn is_registered(api_version: &str, kinds: &Kinds) -> bool {
    matches!(
        api_version,
        "v1" | "meta.k8s.io/v1" | "policy/v1" | "authorization.k8s.io/v1" | "authentication.k8s.io/v1"
    ) || kinds.stored().any(|resource| resource.api_version() == api_version)
}

/// Parses a boolean parameter: all values but two are true.
pub(crate) fn is_true(word: &str) -> bool {
    word != "0" && !word.eq_ignore_ascii_case("false")
}
