//! An engine from state files, and again whenever the files change.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use portcullis_policy::engine::{Builder, Engine, EngineConfig, EngineError};

use super::{StateError, Summary, files, load};
use std::num::NonZeroUsize;

/// Which files, and how to decide over them.
#[derive(Clone, Debug)]
pub struct Source {
    /// Files and directories.
    pub paths: Vec<PathBuf>,
    /// What the engine is to do.
    pub config: EngineConfig,
    /// Threads that decode.
    pub threads: NonZeroUsize,
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The modes contradict each other.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Source {
    /// Builds an engine over the files as they are now, all of them or none.
    ///
    /// # Errors
    /// The first file or object that cannot be used.
    pub fn build(&self) -> Result<(Engine, Summary), SourceError> {
        let mut builder = Builder::new(self.config.clone())?;
        let summary =
            load(&self.paths, self.threads, &mut |object| builder.take(object).map_err(|e| e.to_string()))?;
        Ok((builder.finish(), summary))
    }
}

/// What can be seen of the files without reading them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Look {
    Files(Vec<Seen>),
    /// They cannot even be found; why.
    Missing(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    length: u64,
    modified: Option<SystemTime>,
    /// Tells a file from the one that replaced it, where the system knows.
    inode: u64,
}

/// A file changed this recently may change again without looking different.
const UNSETTLED: Duration = Duration::from_secs(2);

/// Looks at the files again and again, and builds a new engine when they look different.
///
/// Files are looked at by name, as mounted volumes replace them by links, which watching the old ones would miss.
#[derive(Debug)]
pub struct Watch {
    source: Source,
    last: Look,
    settled: bool,
}

impl Watch {
    /// Builds the first engine, and remembers how the files looked.
    ///
    /// # Errors
    /// As [`Source::build`].
    pub fn start(source: Source) -> Result<(Self, Engine, Summary), SourceError> {
        // Looked at before they are read: a change while reading is seen as one.
        let last = look(&source.paths);
        let settled = is_settled(&last);
        let (engine, summary) = source.build()?;
        Ok((Self { source, last, settled }, engine, summary))
    }

    /// Builds a new engine if the files look different from the last time. What could not be built is not tried again
    /// before they change.
    pub fn check(&mut self) -> Option<Result<(Engine, Summary), SourceError>> {
        let now = look(&self.source.paths);
        if now == self.last && self.settled {
            return None;
        }
        self.settled = is_settled(&now);
        self.last = now;
        Some(self.source.build())
    }
}

fn look(paths: &[PathBuf]) -> Look {
    let found = match files::find(paths) {
        Ok(found) => found,
        Err(error) => return Look::Missing(error.to_string()),
    };
    let seen: Result<Vec<Seen>, _> = found
        .into_iter()
        .map(|path| {
            let metadata =
                std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(Seen {
                length: metadata.len(),
                modified: metadata.modified().ok(),
                inode: inode(&metadata),
                path,
            })
        })
        .collect();
    seen.map_or_else(Look::Missing, Look::Files)
}

#[cfg(unix)]
fn inode(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> u64 {
    0
}

fn is_settled(look: &Look) -> bool {
    let Look::Files(files) = look else { return true };
    let now = SystemTime::now();
    files.iter().all(|file| {
        file.modified.is_some_and(|modified| now.duration_since(modified).is_ok_and(|age| age > UNSETTLED))
    })
}

#[cfg(test)]
mod tests {
    use portcullis_policy::chain::Mode;
    use portcullis_policy::{Attributes, ResourceRequest, User};
    use portcullis_testkit::scratch::Scratch;

    use super::*;

    const ROLE: &str = r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}"#;

    fn binding(user: &str) -> String {
        format!(
            r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{{"name":"b"}},"subjects":[{{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"{user}"}}],"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"}}}}"#
        )
    }

    fn allows(engine: &Engine, user: &str) -> bool {
        let user = User::new(user, [""; 0]);
        let resource =
            ResourceRequest { resource: "pods", namespace: "a", name: "p", ..ResourceRequest::default() };
        let attributes = Attributes { user: &user, verb: "get", path: "", resource: Some(resource) };
        engine.chain().decide(&attributes).is_allow()
    }

    fn source(scratch: &Scratch) -> Source {
        Source {
            paths: vec![scratch.path().to_owned()],
            config: EngineConfig { modes: vec![Mode::Rbac], ..EngineConfig::default() },
            threads: NonZeroUsize::MIN,
        }
    }

    #[test]
    fn a_changed_file_makes_a_new_engine_and_a_broken_one_makes_none() {
        let scratch = Scratch::new();
        scratch.write("role.json", ROLE);
        scratch.write("binding.json", binding("jane"));
        let (mut watch, engine, summary) = Watch::start(source(&scratch)).unwrap();
        assert_eq!(summary.object_count(), 2);
        assert!(allows(&engine, "jane") && !allows(&engine, "john"));

        scratch.write("binding.json", binding("johnny"));
        let (engine, _) = watch.check().unwrap().unwrap();
        assert!(!allows(&engine, "jane") && allows(&engine, "johnny"));

        scratch.write("binding.json", "{\"apiVersion\":");
        let error = watch.check().unwrap().unwrap_err().to_string();
        assert!(error.contains("binding.json"), "{error}");

        std::fs::remove_file(scratch.path().join("binding.json")).unwrap();
        let (engine, summary) = watch.check().unwrap().unwrap();
        assert_eq!(summary.object_count(), 1);
        assert!(!allows(&engine, "johnny"));
    }

    #[test]
    fn files_that_settled_and_look_the_same_are_not_read_again() {
        let scratch = Scratch::new();
        let path = scratch.write("role.json", ROLE);
        let old = SystemTime::now() - Duration::from_secs(60);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        let (mut watch, _, _) = Watch::start(source(&scratch)).unwrap();
        assert!(watch.check().is_none());
        scratch.write("role.json", ROLE);
        assert!(watch.check().unwrap().is_ok());
    }

    #[test]
    fn a_directory_that_goes_away_is_said_once_and_comes_back() {
        let scratch = Scratch::new();
        let path = scratch.write("in/role.json", ROLE);
        let source = Source { paths: vec![scratch.path().join("in")], ..source(&scratch) };
        let (mut watch, _, _) = Watch::start(source).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(watch.check().unwrap().is_err());
        assert!(watch.check().is_none());
        scratch.write("in/role.json", ROLE);
        assert!(watch.check().unwrap().is_ok());
    }
}
