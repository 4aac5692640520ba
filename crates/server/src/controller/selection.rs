//! Which controllers run (`--controllers`, as in kube-controller-manager).

use std::fmt;

/// The known controllers, each with its former short name.
const KNOWN: [(&str, &str); 18] = [
    ("bootstrap-account-controller", "bootstrap-account"),
    ("bootstrap-bundle-controller", "bootstrap-bundle"),
    ("certificatesigningrequest-approving-controller", "csrapproving"),
    ("certificatesigningrequest-cleaner-controller", "csrcleaner"),
    ("certificatesigningrequest-signing-controller", "csrsigning"),
    ("clusterrole-aggregation-controller", "clusterrole-aggregation"),
    ("garbage-collector-controller", "garbagecollector"),
    ("namespace-controller", "namespace"),
    ("node-lifecycle-controller", "nodelifecycle"),
    ("persistentvolume-protection-controller", "pv-protection"),
    ("persistentvolumeclaim-protection-controller", "pvc-protection"),
    ("pod-garbage-collector-controller", "podgc"),
    ("resourcequota-controller", "resourcequota"),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
    ("serviceaccount-controller", "serviceaccount"),
    ("serviceaccount-token-controller", "serviceaccount-token"),
    ("taint-eviction-controller", "taint-eviction"),
    ("token-cleaner-controller", "tokencleaner"),
];

/// The set of enabled controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    are_others_on: bool,
    on: Vec<&'static str>,
    off: Vec<&'static str>,
}

/// The controller is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownController(String);

impl fmt::Display for UnknownController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no controller {:?} here: there are ", self.0)?;
        for (i, (name, _)) in KNOWN.iter().enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("; * enables all others, and -NAME disables one")
    }
}

impl std::error::Error for UnknownController {}

impl Default for Selection {
    /// All controllers are enabled.
    fn default() -> Self {
        Self { are_others_on: true, on: Vec::new(), off: Vec::new() }
    }
}

impl Selection {
    /// Parses a list: names to enable, names with `-` to disable, and `*` for all others.
    ///
    /// # Errors
    /// A controller is unknown.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownController> {
        let mut selection = Self { are_others_on: false, ..Self::default() };
        for word in words.into_iter().map(str::trim).filter(|word| !word.is_empty()) {
            if word == "*" {
                selection.are_others_on = true;
                continue;
            }
            let (name, list) = match word.strip_prefix('-') {
                Some(name) => (name, &mut selection.off),
                None => (word, &mut selection.on),
            };
            let known = KNOWN.iter().find(|(long, short)| name == *long || name == *short);
            list.push(known.ok_or_else(|| UnknownController(name.to_owned()))?.0);
        }
        Ok(selection)
    }

    /// Returns whether this controller is enabled.
    pub(super) fn has(&self, name: &str) -> bool {
        self.on.contains(&name) || self.are_others_on && !self.off.contains(&name)
    }

    /// Disables a controller.
    #[must_use]
    pub fn without(mut self, name: &'static str) -> Self {
        self.on.retain(|on| *on != name);
        self.off.push(name);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_more_than_the_star() {
        let approving = "certificatesigningrequest-approving-controller";
        let namespace = "namespace-controller";
        let has = |words: &[&str]| {
            let selection = Selection::parse(words.iter().copied()).unwrap();
            (selection.has(approving), selection.has(namespace))
        };
        assert_eq!(has(&["*"]), (true, true));
        assert_eq!(has(&["*", "-csrapproving"]), (false, true));
        assert_eq!(has(&["-csrapproving", "*"]), (false, true));
        assert_eq!(has(&["namespace"]), (false, true));
        assert_eq!(has(&[""]), (false, false));
        assert!(Selection::default().has(approving));
        let error = Selection::parse(["cronjob-controller"]).unwrap_err().to_string();
        assert!(error.contains("\"cronjob-controller\"") && error.contains(namespace), "{error}");
    }
}
