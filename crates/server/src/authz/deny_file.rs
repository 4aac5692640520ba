//! The file of deny rules (`--deny-file`), and its reload while serving (BC-30).
//!
//! A file that cannot be used changes nothing: the rules in force stay, and the log and a metric report the failure.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use policy::deny::{DenyRules, LiveRules};
use portcullis_apimachinery::json;

use crate::metrics::ReloadMetrics;
use crate::state::yaml;

/// The interval at which the file is read.
const EVERY: Duration = Duration::from_secs(1);
/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Reads rules from a file, YAML or JSON.
///
/// # Errors
/// The file cannot be read, is too large, or its first error. The text does not name the file.
pub fn read(path: &Path) -> Result<DenyRules, String> {
    parse(&contents(path)?)
}

fn contents(path: &Path) -> Result<Vec<u8>, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_BYTES) {
        return Ok(bytes);
    }
    Err(format!("is larger than {MAX_BYTES} bytes"))
}

fn parse(bytes: &[u8]) -> Result<DenyRules, String> {
    let text = json::utf8(bytes).map_err(|error| error.to_string())?;
    let json = yaml::to_json(text).map_err(|error| error.to_string())?;
    DenyRules::parse(&json).map_err(|error| error.to_string())
}

/// A file that is read again when it changes, and the rules in force.
pub struct DenyFile {
    path: PathBuf,
    rules: Arc<LiveRules>,
    /// Whether the labels of namespaces are followed, so that rules can select by them.
    has_namespaces: bool,
    metrics: ReloadMetrics,
    /// The hash of the last contents, or why there are none.
    last: Option<Result<[u8; 32], String>>,
}

impl DenyFile {
    /// The file from which these rules were read. If `has_namespaces` is false, rules that select namespaces by label are refused
    /// until the next start: every namespace would count as selected.
    pub fn new(path: PathBuf, rules: Arc<LiveRules>, has_namespaces: bool, metrics: ReloadMetrics) -> Self {
        Self { path, rules, has_namespaces, metrics, last: None }
    }

    /// Puts changed rules in force, and calls `changed` then. Never returns.
    pub async fn run(mut self, changed: impl Fn()) {
        loop {
            let looked = tokio::task::spawn_blocking(move || {
                let is_changed = self.look();
                (self, is_changed)
            });
            // It only ends early when the runtime does.
            let Ok((again, is_changed)) = looked.await else { return };
            self = again;
            if is_changed {
                changed();
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Reads the file; returns whether other rules are in force now.
    fn look(&mut self) -> bool {
        let bytes = contents(&self.path);
        let found = bytes.as_ref().map(|bytes| pki::sha256(bytes)).map_err(String::clone);
        if self.last.as_ref() == Some(&found) {
            return false;
        }
        let is_first = self.last.is_none();
        self.last = Some(found.clone());
        match (bytes.and_then(|bytes| self.rules_of(&bytes)), found) {
            (Ok(rules), Ok(hash)) => {
                self.metrics.in_force(&hash);
                let is_other = rules != *self.rules.current();
                if is_first && !is_other {
                    return false;
                }
                self.metrics.reloaded(true, SystemTime::now());
                let path = self.path.display();
                for warning in rules.warnings() {
                    tracing::warn!(%path, warning, "a deny rule is probably a mistake");
                }
                tracing::info!(%path, rules = rules.count(), "the deny rules were reloaded");
                if is_other {
                    self.rules.replace(rules);
                }
                is_other
            }
            (Err(error), _) | (Ok(_), Err(error)) => {
                self.metrics.reloaded(false, SystemTime::now());
                let path = self.path.display();
                tracing::error!(%path, error, "the deny rules cannot be used; those in force stay");
                false
            }
        }
    }

    fn rules_of(&self, bytes: &[u8]) -> Result<DenyRules, String> {
        let rules = parse(bytes)?;
        if rules.need_namespaces() && !self.has_namespaces {
            return Err(
                "a rule has a namespaceSelector, and namespaces are not followed, because no rule had one at the start: \
                 start again, with the right to list and watch namespaces"
                    .to_owned(),
            );
        }
        Ok(rules)
    }
}
