//! Content negotiation: the media type of a request body, and those that the client accepts (AP-10, AP-17, AP-18).

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use super::status::Status;

/// The media type of protobuf.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const TEXTS: &str = "application/json, application/yaml";
const READ: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The syntax of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Syntax {
    /// `application/json`
    #[default]
    Json,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// `application/yaml`
    Yaml,
}

/// The forms that a document has beside JSON and YAML. Metadata alone always has a protobuf form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forms {
    /// Protobuf.
    pub(crate) has_protobuf: bool,
    /// A table.
    pub(crate) has_table: bool,
}

impl Forms {
    /// Every form.
    pub(crate) const ALL: Self = Self { has_protobuf: true, has_table: true };
    /// Those of a document that is not an object with columns.
    pub(crate) const DOCUMENT: Self = Self { has_protobuf: true, has_table: false };
    /// JSON and YAML alone.
    pub(crate) const TEXT: Self = Self { has_protobuf: false, has_table: false };

    fn refusal(self) -> Status {
        match self.has_protobuf {
            true => Status::not_acceptable(ACCEPTED),
            // DIVERGES: Kubernetes also names protobuf, which it does not send.
            false => Status::not_acceptable(TEXTS).without_details(),
        }
    }
}

/// The representation in which an object is sent (AP-18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum View {
    /// The object as it is.
    #[default]
    Whole,
    /// Its metadata.
    Partial,
    /// The metadata of each object of a list.
    PartialList,
    /// Rows and columns.
    Table,
}

/// The representation that the client accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Accepted {
    /// The syntax.
    pub(crate) syntax: Syntax,
    /// The view.
    pub(crate) view: View,
    /// Whether table and metadata views use version `v1beta1`.
    pub(crate) is_beta: bool,
    /// Whether to indent JSON.
    pub(crate) is_pretty: bool,
}

/// Negotiates the syntax of a document that has only one view.
///
/// # Errors
/// 406 if the client accepts no supported media type.
pub(crate) fn document(headers: &HeaderMap, forms: Forms) -> Result<Syntax, Status> {
    clauses(headers)
        .iter()
        .find_map(|clause| clause.accepted(forms).filter(|a| a.view == View::Whole))
        .map(|accepted| accepted.syntax)
        .ok_or_else(|| forms.refusal())
}

/// Returns whether the client wants aggregated discovery (AP-100).
///
/// # Errors
/// 406 if the client accepts no supported media type.
pub(crate) fn discovery(headers: &HeaderMap) -> Result<bool, Status> {
    let clauses = clauses(headers);
    let found = clauses.iter().find_map(|clause| match clause.is_aggregated_discovery() {
        true => Some(true),
        false => clause.accepted(Forms::ALL).filter(|a| a.view == View::Whole).map(|_| false),
    });
    found.ok_or_else(|| Forms::ALL.refusal())
}

/// Returns whether the client prefers one of these media types to JSON.
///
/// # Errors
/// 406 if it accepts neither.
pub(crate) fn prefers(headers: &HeaderMap, media: &[&str]) -> Result<bool, Status> {
    let clauses = clauses(headers);
    let found = clauses.iter().find_map(|clause| match media.contains(&clause.media) {
        true => Some(true),
        false => clause.accepted(Forms::TEXT).filter(|a| a.view == View::Whole).map(|_| false),
    });
    found.ok_or_else(|| Forms::TEXT.refusal())
}

/// Checks that the client accepts the only media type of a document.
///
/// # Errors
/// 406 if it does not.
pub(crate) fn only(headers: &HeaderMap, media: &'static str) -> Result<(), Status> {
    let is_taken = |clause: &Clause<'_>| clause.media == "*/*" || clause.media.eq_ignore_ascii_case(media);
    if clauses(headers).iter().any(is_taken) { Ok(()) } else { Err(Status::not_acceptable(media)) }
}

/// Negotiates the representation of objects.
///
/// # Errors
/// 406 if the client accepts no supported media type.
pub(crate) fn objects(headers: &HeaderMap, forms: Forms) -> Result<Accepted, Status> {
    let found = clauses(headers).iter().find_map(|clause| clause.accepted(forms));
    found.ok_or_else(|| forms.refusal())
}

/// Negotiates the representation of a stream of events: JSON or protobuf (AP-80).
///
/// # Errors
/// 406 if the client accepts no supported media type, or prefers YAML.
pub(crate) fn events(headers: &HeaderMap, forms: Forms) -> Result<Accepted, Status> {
    match objects(headers, forms) {
        Ok(accepted) if accepted.syntax != Syntax::Yaml => Ok(accepted),
        _ => Err(Status::not_acceptable(match forms.has_protobuf {
            true => "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
            false => "application/json;stream=watch",
        })),
    }
}

/// Returns the syntax for errors: that of the requested response, or JSON without one (AP-17).
pub(crate) fn syntax(headers: &HeaderMap) -> Syntax {
    document(headers, Forms::ALL).unwrap_or_default()
}

/// One media range of the `Accept` header.
#[derive(Debug)]
struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// Returns the media ranges of `Accept` in order of preference. Without the header, or if it is empty, every media type
/// is accepted.
fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let value = headers.get(ACCEPT).map_or(Ok(""), |value| value.to_str()).unwrap_or("?");
    // Most clients accept one media type, without parameters.
    if memchr::memchr2(b',', b';', value.as_bytes()).is_none() {
        let media = match value.trim() {
            "" => "*/*",
            media => media,
        };
        return vec![Clause { media, parameters: Vec::new(), quality: 1.0 }];
    }
    let mut clauses: Vec<Clause<'_>> = value.split(',').map(Clause::read).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

impl<'a> Clause<'a> {
    fn read(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let mut quality = 1.0;
        let mut parameters = Vec::new();
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match (name.trim(), value.trim()) {
                ("q", value) => quality = value.parse().ok().filter(|q: &f32| q.is_finite()).unwrap_or(1.0),
                pair => parameters.push(pair),
            }
        }
        Self { media, parameters, quality }
    }

    /// Returns a parameter; empty if it is missing.
    fn parameter(&self, name: &str) -> &'a str {
        self.parameters.iter().rev().find(|(n, _)| *n == name).map_or("", |(_, value)| *value)
    }

    /// AP-100: only JSON and only the supported version.
    fn is_aggregated_discovery(&self) -> bool {
        self.media.eq_ignore_ascii_case("application/json")
            && self.parameter("as") == "APIGroupDiscoveryList"
            && self.parameter("g") == "apidiscovery.k8s.io"
            && self.parameter("v") == "v2"
    }

    /// Returns the representation that the media range asks for, if it is supported (AP-18).
    fn accepted(&self, forms: Forms) -> Option<Accepted> {
        let syntax = match self.media {
            "*/*" => Syntax::Json,
            media if media.eq_ignore_ascii_case("application/json") => Syntax::Json,
            media if media.eq_ignore_ascii_case("application/yaml") => Syntax::Yaml,
            media if media.eq_ignore_ascii_case(PROTOBUF) => Syntax::Protobuf,
            _ => return None,
        };
        let parameter = |name: &str| self.parameter(name);
        if !matches!(parameter("stream"), "" | "watch") {
            return None;
        }
        let (kind, group, version) = (parameter("as"), parameter("g"), parameter("v"));
        let view = match kind {
            "" if group.is_empty() && version.is_empty() => View::Whole,
            "Table" => View::Table,
            "PartialObjectMetadata" => View::Partial,
            "PartialObjectMetadataList" => View::PartialList,
            _ => return None,
        };
        let has_form = match view {
            // Tables have no protobuf form.
            View::Table => forms.has_table && syntax != Syntax::Protobuf,
            View::Whole => forms.has_protobuf || syntax != Syntax::Protobuf,
            View::Partial | View::PartialList => true,
        };
        if !has_form {
            return None;
        }
        let is_pretty = parameter("pretty") == "1";
        if view == View::Whole {
            return Some(Accepted { syntax, is_pretty, ..Accepted::default() });
        }
        if group != "meta.k8s.io" || !matches!(version, "v1" | "v1beta1") {
            return None;
        }
        Some(Accepted { syntax, view, is_beta: version == "v1beta1", is_pretty })
    }
}

/// The supported formats of request bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `application/json`
    Json,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// `application/yaml`
    Yaml,
}

/// Returns the media type of a body without parameters; empty if there is none.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let Some(value) = headers.get(CONTENT_TYPE) else { return "" };
    value.to_str().unwrap_or("?").split(';').next().unwrap_or_default().trim()
}

/// Returns the format of the body according to its media type (AP-10). A body without a media type is treated as JSON.
///
/// # Errors
/// 415 for other media types.
pub(crate) fn form(headers: &HeaderMap) -> Result<Form, Status> {
    match content_type(headers) {
        "" => Ok(Form::Json),
        media if media.eq_ignore_ascii_case("application/json") => Ok(Form::Json),
        media if media.eq_ignore_ascii_case("application/yaml") => Ok(Form::Yaml),
        media if media.eq_ignore_ascii_case(PROTOBUF) => Ok(Form::Protobuf),
        _ => Err(Status::unsupported_media_type(READ)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn asked(accept: &str) -> Option<(Syntax, View)> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        objects(&headers, Forms::ALL).ok().map(|accepted| (accepted.syntax, accepted.view))
    }

    #[test]
    fn clauses_are_tried_in_order_of_preference_ap_17_ap_18() {
        let json = Some((Syntax::Json, View::Whole));
        assert_eq!(asked(""), json);
        assert_eq!(asked("*/*"), json);
        assert_eq!(asked("text/xml, application/json;q=0.5"), json);
        assert_eq!(asked("application/json;q=0"), json);
        assert_eq!(asked("application/yaml;q=0.5, application/json"), json);
        assert_eq!(asked("application/yaml, application/json"), Some((Syntax::Yaml, View::Whole)));
        let protobuf = Some((Syntax::Protobuf, View::Whole));
        assert_eq!(asked("application/vnd.kubernetes.protobuf, application/json"), protobuf);
        assert_eq!(asked("application/vnd.kubernetes.protobuf;q=0.5, application/json"), json);
        let metadata = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        let partial = Some((Syntax::Protobuf, View::Partial));
        assert_eq!(asked(&format!("{PROTOBUF};{metadata}, application/json")), partial);
        assert_eq!(asked(&format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1, application/json")), json);
        for refused in ["application/*", ";;;", "text/plain", "application/json;as=Table;v=v1", "Application"]
        {
            assert_eq!(asked(refused), None, "{refused}");
        }
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(asked(table), Some((Syntax::Json, View::Table)));
        assert_eq!(asked(&format!("{table},application/json")), Some((Syntax::Json, View::Table)));
        assert_eq!(asked("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"), json);
        assert_eq!(asked("application/json;as=Chair;v=v1;g=meta.k8s.io"), None);
    }
}
