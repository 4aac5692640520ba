//! The certificate authorities of control-plane bootstrap credentials: those in a ConfigMap, without those that were
//! revoked.
//!
//! Trust depends only on what is stored (NB-21): the authorities in the ConfigMaps of [`Settings::config_maps`],
//! without those on the revocation list, which is a ConfigMap as well. A commit that removes an authority adds it to
//! that list in the same commit (NB-25), so neither a crash nor a race can separate the two. The new trust is in force
//! before the commit is acknowledged, also on open connections (NB-20 to NB-22).
//!
//! These authorities are trusted for one account only; see [`Settings::vouches_for`].

mod inventory;
mod source;
mod tombstones;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use kinds::resources::core::config_maps::CONFIG_MAPS;
use pki::cert::KnownAuthority;
use pki::{CaBundle, Identity};
use portcullis_store::{Amender, Current, Entry, Event, Observer, Store as _, StoreError, Write};
use tokio::sync::watch;

use self::source::Source;
use self::tombstones::Tombstones;
use super::backend::{Backend, Options};
use super::storage;

pub use self::inventory::{Inventory, Listed};
pub use self::source::{ACKNOWLEDGE, BUNDLE_KEY};
pub use self::tombstones::{LIST_NAME, LIST_NAMESPACE};

/// The name of the ConfigMap (NB-13).
pub const CONFIG_MAP: &str = "kubelet-bootstrap-kubeconfig";
/// Its namespace: that of the enhancement, and that of released clusters (NB-14).
pub const NAMESPACES: [&str; 2] = ["openshift-config", "openshift-config-managed"];
/// The namespace of the account that bootstraps nodes (NB-30).
pub const ACCOUNT_NAMESPACE: &str = "openshift-machine-config-operator";
/// The name of the account that bootstraps nodes (NB-30).
pub const ACCOUNT: &str = "node-bootstrapper";
/// The annotation of that account which, with the value `true`, makes the server keep a token for it in a secret with
/// the account's name and suffix `-token` (NB-31, NB-34).
pub const KEEP_TOKEN: &str = "portcullis.dev/keep-bootstrap-token";

/// The ConfigMaps of the authorities, and the account that they authenticate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The ConfigMaps, by namespace and name. If there are none, no bootstrap authority is trusted.
    pub config_maps: Vec<(String, String)>,
    /// The service account that bootstraps nodes, by namespace and name.
    pub account: (String, String),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            config_maps: NAMESPACES.map(|namespace| (namespace.to_owned(), CONFIG_MAP.to_owned())).to_vec(),
            account: (ACCOUNT_NAMESPACE.to_owned(), ACCOUNT.to_owned()),
        }
    }
}

impl Settings {
    /// Returns whether a bootstrap authority may authenticate this identity: only the account that bootstraps nodes,
    /// only with its own groups, and without a UID (NB-15).
    ///
    /// DIVERGES: OpenShift adds these authorities to the client CAs, so that their certificates can name any user,
    /// including `system:masters`, and whoever may write the ConfigMap can become any user.
    pub fn vouches_for(&self, identity: &Identity) -> bool {
        let (namespace, name) = &self.account;
        let is_own = |group: &String| {
            group == "system:serviceaccounts"
                || group.strip_prefix("system:serviceaccounts:").is_some_and(|of| of == namespace)
        };
        let account = identity.common_name().strip_prefix("system:serviceaccount:");
        account.and_then(|account| account.split_once(':')) == Some((namespace, name))
            && identity.organizations().iter().all(is_own)
            && identity.user_id().is_empty()
    }
}

/// See the module.
pub struct BootstrapAuthorities {
    settings: Settings,
    /// The keys of the ConfigMaps in the store.
    sources: Vec<Box<str>>,
    /// The key of the list of revoked authorities.
    list: Box<str>,
    stored: Mutex<Stored>,
    trusted: ArcSwapOption<CaBundle>,
    /// Notified of every change.
    changes: watch::Sender<()>,
}

/// The stored objects, as decoded.
#[derive(Default)]
struct Stored {
    sources: BTreeMap<Box<str>, Source>,
    tombstones: Tombstones,
    /// The digests of the trusted authorities.
    trusted: Vec<[u8; 32]>,
}

impl BootstrapAuthorities {
    /// Trusts no authority before [`Self::load`].
    pub fn new(settings: Settings) -> Arc<Self> {
        let places = settings.config_maps.iter();
        let sources = places.map(|(namespace, name)| storage::key(&CONFIG_MAPS, namespace, name));
        Arc::new(Self {
            sources: sources.collect(),
            list: storage::key(&CONFIG_MAPS, LIST_NAMESPACE, LIST_NAME),
            settings,
            stored: Mutex::default(),
            trusted: ArcSwapOption::empty(),
            changes: watch::Sender::new(()),
        })
    }

    /// Returns the options of a store whose changes are followed, and which maintains the revocation list.
    #[must_use]
    pub fn follow(self: &Arc<Self>, options: Options) -> Options {
        options.observer(Arc::<Self>::clone(self)).amender(Arc::<Self>::clone(self))
    }

    /// Loads the stored objects. Must be called before serving.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn load(&self, backend: &Backend) -> Result<(), StoreError> {
        for key in self.sources.iter().chain([&self.list]) {
            let entry = backend.get(key).await?;
            self.take(key, entry.as_deref());
        }
        self.settle();
        Ok(())
    }

    /// Returns the trusted authorities; none if there are none.
    pub(crate) fn trusted(&self) -> Option<Arc<CaBundle>> {
        self.trusted.load_full()
    }

    /// Returns a receiver that is notified when the trusted authorities change.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Returns the settings.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn concerns(&self, key: &str) -> bool {
        *key == *self.list || self.is_source(key)
    }

    fn is_source(&self, key: &str) -> bool {
        self.sources.iter().any(|source| **source == *key)
    }

    /// Applies the current state of a key.
    fn take(&self, key: &str, entry: Option<&Entry>) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let object = entry.map(|entry| storage::decode(&entry.value));
        if *key == *self.list {
            stored.tombstones = match &object {
                None => Tombstones::default(),
                Some(Ok(list)) => Tombstones::read(list),
                Some(Err(error)) => {
                    tracing::error!(
                        key,
                        error = error.message(),
                        "no authority is trusted until this can be read"
                    );
                    Tombstones::unreadable()
                }
            };
        } else {
            let source = object.and_then(Result::ok).as_ref().map(Source::read).unwrap_or_default();
            stored.sources.insert(key.into(), source);
        }
    }

    /// Recomputes the trusted authorities: without duplicates, and ignoring invalid ones individually (NB-16).
    fn settle(&self) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trusted: BTreeMap<[u8; 32], &KnownAuthority> = BTreeMap::new();
        for (key, source) in &stored.sources {
            for fault in &source.faults {
                tracing::warn!(key = &**key, fault, "a bootstrap authority is ignored");
            }
            for authority in &source.authorities {
                let digest = authority.digest();
                if stored.tombstones.refuses(authority) && !source.acknowledged.contains(&digest) {
                    tracing::warn!(
                        key = &**key,
                        sha256 = tombstones::hex(&digest),
                        "a revoked authority of bootstrap credentials stays revoked: annotation {ACKNOWLEDGE} with its \
                         digest would let it in again"
                    );
                } else {
                    trusted.insert(digest, authority);
                }
            }
        }
        let bundle = CaBundle::from_authorities(trusted.values().copied()).ok();
        self.trusted.store(bundle.map(Arc::new));
        let trusted: Vec<[u8; 32]> = trusted.into_keys().collect();
        if trusted != stored.trusted {
            // NB-14: the ConfigMaps that were found.
            let found = stored.sources.iter().filter(|(_, source)| !source.authorities.is_empty());
            let found: Vec<&str> = found.map(|(key, _)| &**key).collect();
            tracing::info!(
                trusted = trusted.len(),
                found = found.join(","),
                "the trusted bootstrap authorities have changed"
            );
            stored.trusted = trusted;
            // Earlier authentication results must be checked again.
            self.changes.send_replace(());
        }
    }
}

impl Observer for BootstrapAuthorities {
    fn committed(&self, events: &[Event]) {
        let mut has_changed = false;
        for event in events.iter().filter(|event| self.concerns(event.key())) {
            self.take(event.key(), event.entry.as_deref());
            has_changed = true;
        }
        if has_changed {
            self.settle();
        }
    }
}

impl Amender for BootstrapAuthorities {
    /// NB-25: an authority that no ConfigMap contains any more is revoked (NB-14: not one that only one of them has
    /// lost).
    fn amend(&self, writes: &[Write], current: Current<'_>) -> Vec<Write> {
        if !writes.iter().any(|write| self.is_source(&write.key)) {
            return Vec::new();
        }
        let read =
            |bytes: &[u8]| storage::decode(bytes).map(|object| Source::read(&object)).unwrap_or_default();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for key in &self.sources {
            let held = current(key).map(|entry| read(&entry.value)).unwrap_or_default();
            let written = writes.iter().find(|write| write.key == *key).map(|write| write.value.as_ref());
            match written {
                None => after.extend(held.authorities.iter().map(KnownAuthority::digest)),
                Some(value) => {
                    let source = value.map(|value| read(&value.bytes)).unwrap_or_default();
                    after.extend(source.authorities.iter().map(KnownAuthority::digest));
                }
            }
            before.extend(held.authorities);
        }
        before.retain(|authority| !after.contains(&authority.digest()));
        if before.is_empty() {
            return Vec::new();
        }
        match tombstones::written(current(&self.list).as_deref(), &before) {
            Ok(write) => write.into_iter().collect(),
            Err(status) => {
                // An authority that is removed from the ConfigMap is not trusted in any case; only its return is not
                // prevented.
                tracing::error!(
                    error = status.message(),
                    "the list of revoked authorities cannot be written"
                );
                Vec::new()
            }
        }
    }
}
