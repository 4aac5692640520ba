//! The standards that a namespace asks for, read from its labels.

use std::fmt;

use portcullis_apimachinery::field_error::{FieldError, FieldErrors};
use portcullis_apimachinery::quote::quoted;

use crate::Map;
use crate::fields::Members;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// A level of the standards. A greater level is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    Privileged,
    /// Known privilege escalations are forbidden.
    Baseline,
    /// Current hardening practice is required.
    Restricted,
}

/// The version of Kubernetes whose checks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `v1.` and this number.
    Minor(u32),
    /// The newest checks.
    Latest,
}

/// A level in a version; prints as `baseline:v1.30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standard {
    /// The level.
    pub level: Level,
    /// The version whose checks count.
    pub version: Version,
}

/// The standards of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A pod that violates it is refused.
    pub enforce: Standard,
    /// A violation is noted in the audit log.
    pub audit: Standard,
    /// The client is warned of a violation.
    pub warn: Standard,
}

impl Level {
    /// The names, from the least strict.
    const ALL: [(&'static str, Self); 3] =
        [("privileged", Self::Privileged), ("baseline", Self::Baseline), ("restricted", Self::Restricted)];

    /// Reads a name; none if there is no such level.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, level)| *level)
    }

    /// `baseline`, for example.
    pub fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

impl Version {
    /// Reads `latest` or `v1.N`; none for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let number = text.strip_prefix("v1.")?;
        let is_canonical =
            number.bytes().all(|byte| byte.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
        is_canonical.then(|| number.parse().ok().map(Self::Minor)).flatten()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Minor(minor) => write!(f, "v1.{minor}"),
            Self::Latest => f.write_str("latest"),
        }
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.name(), self.version)
    }
}

/// The details of errors about levels and versions.
pub const NO_LEVEL: &str = "must be one of privileged, baseline, restricted";
/// See [`NO_LEVEL`].
pub const NO_VERSION: &str = r#"must be "latest" or "v1.x""#;

/// The standard of a namespace without labels, where nothing else is configured.
const NOTHING: Standard = Standard { level: Level::Privileged, version: Version::Latest };

impl Default for Policy {
    /// The policy of a namespace without labels.
    fn default() -> Self {
        Self { enforce: NOTHING, audit: NOTHING, warn: NOTHING }
    }
}

impl Policy {
    /// Reads the labels of a namespace, and what is wrong with them. What no label says is as in `defaults`; but without a label
    /// for warnings the client is warned by what a label enforces, if that is stricter. A level to enforce that cannot be read
    /// counts as `restricted`, one for the audit log or warnings as `privileged`; a version that cannot be read as the latest.
    pub fn of(namespace: &Map, defaults: &Self) -> (Self, FieldErrors) {
        let labels = namespace.metadata().object("labels");
        let mut errors = FieldErrors::new();
        let mut standard = |mode: &str, usual: Standard, unread: Level| {
            let mut standard = usual;
            if let Some(text) = label(labels, mode) {
                standard.level = Level::parse(text).unwrap_or_else(|| {
                    errors.push(invalid(mode, text, NO_LEVEL));
                    unread
                });
            }
            let mode = format!("{mode}-version");
            if let Some(text) = label(labels, &mode) {
                standard.version = Version::parse(text).unwrap_or_else(|| {
                    errors.push(invalid(&mode, text, NO_VERSION));
                    Version::Latest
                });
            }
            standard
        };
        let enforce = standard("enforce", defaults.enforce, Level::Restricted);
        let audit = standard("audit", defaults.audit, Level::Privileged);
        let mut warn = standard("warn", defaults.warn, Level::Privileged);
        let is_enforced = label(labels, "enforce").and_then(Level::parse).is_some();
        if is_enforced && label(labels, "warn").is_none() && enforce.level > warn.level {
            warn.level = enforce.level;
            if label(labels, "warn-version").is_none() {
                warn.version = enforce.version;
            }
        }
        (Self { enforce, audit, warn }, errors)
    }

    /// Whether every pod passes without a warning and without an annotation.
    pub fn allows_everything(&self) -> bool {
        self.enforce.level == Level::Privileged && self.says_nothing()
    }

    /// Whether no pod causes a warning or an annotation.
    pub fn says_nothing(&self) -> bool {
        [self.audit, self.warn].iter().all(|standard| standard.level == Level::Privileged)
    }

    /// Whether both treat every pod the same.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        let pairs = [(self.enforce, other.enforce), (self.audit, other.audit), (self.warn, other.warn)];
        pairs.iter().all(|(a, b)| a == b || (a.level == Level::Privileged && b.level == Level::Privileged))
    }

    /// The standards that labels of the namespace ask for and that forbid something, such as `enforce=baseline:latest`; with
    /// commas between them.
    pub fn asked_for(&self, namespace: &Map) -> String {
        let labels = namespace.metadata().object("labels");
        let has =
            |mode: &str| label(labels, mode).is_some() || label(labels, &format!("{mode}-version")).is_some();
        let modes = [("enforce", self.enforce), ("audit", self.audit), ("warn", self.warn)];
        let asked_for =
            modes.iter().filter(|(mode, standard)| standard.level != Level::Privileged && has(mode));
        asked_for.map(|(mode, standard)| format!("{mode}={standard}")).collect::<Vec<_>>().join(", ")
    }
}

fn label<'a>(labels: &'a Map, name: &str) -> Option<&'a str> {
    labels.get(&format!("{PREFIX}{name}")).map(|value| value.as_str().unwrap_or_default())
}

fn invalid(name: &str, value: &str, detail: &str) -> FieldError {
    FieldError::invalid(format!("metadata.labels[{PREFIX}{name}]"), quoted(value), detail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(labels: serde_json::Value) -> (Policy, Vec<String>) {
        let namespace = json!({"metadata": {"labels": labels}});
        let (policy, mut errors) = Policy::of(namespace.as_object().unwrap(), &Policy::default());
        (policy, errors.iter_mut().map(|error| error.field.clone()).collect())
    }

    #[test]
    fn a_namespace_without_labels_takes_every_pod() {
        let (policy, errors) = read(json!({"team": "a"}));
        assert!(policy.allows_everything());
        assert!(errors.is_empty());
    }

    #[test]
    fn labels_name_a_level_and_a_version_for_each_mode() {
        let (policy, errors) = read(json!({
            "pod-security.kubernetes.io/enforce": "baseline",
            "pod-security.kubernetes.io/enforce-version": "v1.30",
            "pod-security.kubernetes.io/warn": "restricted",
        }));
        assert!(errors.is_empty());
        assert_eq!(policy.enforce.to_string(), "baseline:v1.30");
        assert_eq!(policy.warn.to_string(), "restricted:latest");
        assert_eq!(policy.audit.to_string(), "privileged:latest");
    }

    /// As Kubernetes has it since 1.26.
    #[test]
    fn the_client_is_warned_by_what_is_enforced_unless_a_label_says_otherwise() {
        for (labels, warn) in [
            (&[("enforce", "baseline")][..], "baseline:latest"),
            (&[("enforce", "baseline"), ("enforce-version", "v1.22")], "baseline:v1.22"),
            (
                &[("enforce", "baseline"), ("enforce-version", "v1.22"), ("warn-version", "latest")],
                "baseline:latest",
            ),
            (&[("enforce", "baseline"), ("warn-version", "v1.23")], "baseline:v1.23"),
            (&[("enforce", "baseline"), ("warn", "restricted")], "restricted:latest"),
            (&[("enforce", "baseline"), ("warn", "privileged")], "privileged:latest"),
            (&[("enforce", "baseline"), ("warn", "foo")], "privileged:latest"),
            (&[("enforce", "foo")], "privileged:latest"),
            (&[("audit", "restricted")], "privileged:latest"),
        ] {
            let named = labels.iter().map(|(mode, value)| (format!("{PREFIX}{mode}"), json!(value)));
            let (policy, _) = read(serde_json::Value::Object(named.collect()));
            assert_eq!(policy.warn.to_string(), warn, "{labels:?}");
        }
    }

    #[test]
    fn what_no_label_says_is_as_it_is_by_default() {
        let standard = |level, version| Standard { level, version };
        let defaults = Policy {
            enforce: standard(Level::Baseline, Version::Minor(30)),
            audit: standard(Level::Restricted, Version::Latest),
            warn: standard(Level::Restricted, Version::Minor(29)),
        };
        let of = |labels: serde_json::Value| {
            let namespace = json!({"metadata": {"labels": labels}});
            let (policy, errors) = Policy::of(namespace.as_object().unwrap(), &defaults);
            assert!(errors.is_empty());
            [policy.enforce, policy.audit, policy.warn].map(|standard| standard.to_string())
        };
        assert_eq!(of(json!({})), ["baseline:v1.30", "restricted:latest", "restricted:v1.29"]);
        let labels = json!({
            "pod-security.kubernetes.io/enforce": "privileged",
            "pod-security.kubernetes.io/audit-version": "v1.20",
        });
        assert_eq!(of(labels), ["privileged:v1.30", "restricted:v1.20", "restricted:v1.29"]);
    }

    #[test]
    fn an_unreadable_level_is_restricted_where_it_is_enforced_and_nothing_elsewhere() {
        for (mode, strict) in [("enforce", true), ("audit", false), ("warn", false)] {
            let name = format!("pod-security.kubernetes.io/{mode}");
            let (policy, errors) = read(json!({ name.clone(): "Baseline" }));
            assert_eq!(errors, [format!("metadata.labels[{name}]")]);
            assert_eq!(policy.enforce.level == Level::Restricted, strict, "{mode}");
            assert_eq!(policy.allows_everything(), !strict, "{mode}");
        }
    }

    #[test]
    fn versions_are_written_in_one_way() {
        for (text, version) in [
            ("latest", Some(Version::Latest)),
            ("v1.0", Some(Version::Minor(0))),
            ("v1.36", Some(Version::Minor(36))),
            ("v1.036", None),
            ("v1.", None),
            ("v1.-1", None),
            ("v1.+1", None),
            ("v2.0", None),
            ("1.30", None),
            ("v1.99999999999", None),
        ] {
            assert_eq!(Version::parse(text), version, "{text}");
        }
        assert!(Version::Minor(u32::MAX) < Version::Latest);
    }
}
