//! Where entries lie in etcd, and in which form: the keys and values of Kubernetes (ET-10 to ET-14).

use std::time::Duration;

use bytes::Bytes;

use crate::{Revision, TransformError, Value};

/// The group and the plural name of a resource: `("coordination.k8s.io", "leases")`. The core group is empty; both are for what is
/// about no resource.
pub type GroupResource = (&'static str, &'static str);

/// Converts keys and values between the store and etcd. Must be fast and do no I/O: all changes pass through it, in order.
///
/// The store's own keys look like `/core/pods/default/web`. Keys in etcd are below a prefix, which is not part of the
/// paths here: `pods/default/web`.
pub trait Layout: Send + Sync + 'static {
    /// The path of a key in etcd, below the prefix; none if the key has no place there.
    fn path(&self, key: &str) -> Option<String>;

    /// The key of a path; none for what this server does not serve. The reverse of [`Layout::path`].
    fn key(&self, path: &str) -> Option<Box<str>>;

    /// The start of the paths of all keys with this prefix: `pods/default/`. What follows it in a path is what follows the prefix
    /// in the key. None if the paths of these keys do not begin alike.
    fn prefix(&self, prefix: &str) -> Option<String>;

    /// The resource of a key, or of a prefix of keys.
    fn resource(&self, key: &str) -> GroupResource;

    /// Converts a value to its form in etcd. `etcd_key` is the whole key in etcd, with the prefix.
    ///
    /// # Errors
    /// The value cannot be converted, such as encrypted. Nothing is then written.
    fn seal(&self, key: &str, etcd_key: &str, value: &Value) -> Result<Vec<u8>, TransformError>;

    /// Converts a value of etcd, with its revision written in. The reverse of [`Layout::seal`]; also reads what other
    /// servers write.
    ///
    /// # Errors
    /// The value cannot be read. It is then not served and grants nothing (ET-12).
    fn open(
        &self,
        key: &str,
        etcd_key: &str,
        sealed: &[u8],
        modified: Revision,
    ) -> Result<Opened, TransformError>;

    /// Whether somebody sees what lies under a key, as of now. A value that cannot be read and that nobody would see is none to
    /// report (ET-12).
    fn is_served(&self, _key: &str) -> bool {
        true
    }

    /// How long the entry of a key lives after its last write; none for as long as nobody deletes it (ET-14).
    fn lifetime(&self, key: &str) -> Option<Duration>;
}

/// A value as it was read from etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The value, with its revision written in.
    pub value: Bytes,
    /// Whether it would be written differently today: encrypted with another key, or in another form.
    pub is_stale: bool,
}
