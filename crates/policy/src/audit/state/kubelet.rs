//! The settings of a kubelet: from its configuration file, the answer of `/configz`, or its flags (AU-14).

use std::collections::BTreeMap;

use serde_json::Value;

use super::api_server::flags;

/// The settings of a kubelet that the audit looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletSettings {
    /// Whether anonymous callers are let in (KA-63).
    pub anonymous: bool,
    /// Whether everybody who is let in may do everything (KA-67).
    pub always_allow: bool,
    /// The port without authentication; 0 for none (KA-69).
    pub read_only_port: i64,
    /// The directory of static pods; empty for none.
    pub static_pod_path: String,
    gates: BTreeMap<String, bool>,
}

impl KubeletSettings {
    /// The defaults of a kubelet that is configured by flags alone: those of the first releases (KA-63 to KA-72).
    pub fn historic() -> Self {
        Self {
            anonymous: true,
            always_allow: true,
            read_only_port: 10255,
            static_pod_path: String::new(),
            gates: BTreeMap::new(),
        }
    }

    /// Reads a `KubeletConfiguration`, or the answer of `/configz`. Missing fields have the defaults of configuration files.
    ///
    /// # Errors
    /// It is another kind, or a field that is read has a value of another type.
    pub fn of(document: &Value) -> Result<Self, String> {
        let config = document.get("kubeletconfig").unwrap_or(document);
        if !config.is_object() {
            return Err("must be a KubeletConfiguration, or the answer of /configz".to_owned());
        }
        if let Some(kind) =
            config.get("kind").and_then(Value::as_str).filter(|kind| *kind != "KubeletConfiguration")
        {
            return Err(format!("kind {kind:?}: must be KubeletConfiguration"));
        }
        let mut gates = BTreeMap::new();
        for (gate, value) in config.get("featureGates").and_then(Value::as_object).into_iter().flatten() {
            let is_on =
                value.as_bool().ok_or_else(|| format!("featureGates.{gate}: must be true or false"))?;
            gates.insert(gate.clone(), is_on);
        }
        let mode = read(config, "/authorization/mode", Value::as_str, "a text")?;
        Ok(Self {
            anonymous: read(config, "/authentication/anonymous/enabled", Value::as_bool, "true or false")?
                .unwrap_or(false),
            always_allow: mode == Some("AlwaysAllow"),
            read_only_port: read(config, "/readOnlyPort", Value::as_i64, "a number")?.unwrap_or(0),
            static_pod_path: read(config, "/staticPodPath", Value::as_str, "a text")?
                .unwrap_or_default()
                .to_owned(),
            gates,
        })
    }

    /// Applies the flags of a command line, which win over the file.
    pub fn set_flags(&mut self, command_line: &str) {
        let words: Vec<&str> = command_line
            .split(|c: char| c == '\0' || c.is_whitespace())
            .filter(|word| !word.is_empty())
            .collect();
        for (name, values) in flags(&words) {
            let Some(value) = values.last() else { continue };
            match name.as_str() {
                "anonymous-auth" => self.anonymous = value != "false",
                "authorization-mode" => self.always_allow = value == "AlwaysAllow",
                "read-only-port" => self.read_only_port = value.parse().unwrap_or(self.read_only_port),
                "pod-manifest-path" => self.static_pod_path.clone_from(value),
                "feature-gates" => {
                    let set = values.iter().filter_map(|gate| gate.split_once('='));
                    self.gates.extend(set.map(|(gate, value)| (gate.to_owned(), value == "true")));
                }
                _ => {}
            }
        }
    }

    /// The value of a feature gate; none if it is not set.
    pub fn gate(&self, name: &str) -> Option<bool> {
        self.gates.get(name).copied()
    }
}

fn read<'v, T>(
    config: &'v Value,
    pointer: &str,
    as_type: fn(&'v Value) -> Option<T>,
    expected: &str,
) -> Result<Option<T>, String> {
    match config.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            as_type(value).map(Some).ok_or_else(|| format!("{field}: must be {expected}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_has_other_defaults_than_flags_alone_au_14() {
        let file = KubeletSettings::of(&json!({"kind": "KubeletConfiguration"}));
        let file = file.unwrap_or_else(|error| panic!("{error}"));
        assert!(!file.anonymous && !file.always_allow && file.read_only_port == 0);
        let mut flags = KubeletSettings::historic();
        assert!(flags.anonymous && flags.always_allow && flags.read_only_port == 10255);
        flags.set_flags(
            "/usr/bin/kubelet\0--anonymous-auth=false\0--authorization-mode=Webhook\0--read-only-port=0",
        );
        assert!(!flags.anonymous && !flags.always_allow && flags.read_only_port == 0);
    }

    #[test]
    fn flags_win_over_the_file_au_14() {
        let config =
            json!({"kubeletconfig": {"readOnlyPort": 0, "featureGates": {"KubeletFineGrainedAuthz": true}}});
        let mut settings = KubeletSettings::of(&config).unwrap_or_else(|error| panic!("{error}"));
        settings.set_flags("kubelet --read-only-port 10255 --feature-gates=KubeletFineGrainedAuthz=false");
        assert_eq!(settings.read_only_port, 10255);
        assert_eq!(settings.gate("KubeletFineGrainedAuthz"), Some(false));
    }

    #[test]
    fn damaged_settings_are_errors() {
        for config in [json!([]), json!({"kind": "Pod"}), json!({"readOnlyPort": "10255"})] {
            assert!(KubeletSettings::of(&config).is_err(), "{config}");
        }
    }
}
