//! The flags of commands that read or write a store without a server over it (ET-60, ET-61).

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use portcullis_server::Kinds;
use portcullis_server::api_server::STORE;
use portcullis_server::encryption::EncryptionConfig;
use portcullis_server::registry::content::{Content, Location};

use crate::etcd_flags::EtcdFlags;
use crate::failure::Failure;

/// The objects of an etcd, and how they are encrypted.
#[derive(Args, Clone, Debug, Default)]
pub struct EtcdSourceFlags {
    #[command(flatten)]
    pub(crate) etcd: EtcdFlags,

    /// The EncryptionConfiguration of the servers that use the store
    #[arg(long, value_name = "FILE", help_heading = "Storage")]
    pub(crate) encryption_provider_config: Option<PathBuf>,
}

/// One store: the file of a data directory, or etcd.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreFlags {
    /// The data directory of a server that is stopped
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Storage",
        conflicts_with = "etcd_servers",
        required_unless_present = "etcd_servers"
    )]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    shared: EtcdSourceFlags,
}

impl EtcdSourceFlags {
    /// The objects in etcd; none if no etcd is named.
    ///
    /// # Errors
    /// A flag is invalid, a file cannot be read, or a KMS plug-in does not answer.
    pub(crate) async fn content(&self) -> Result<Option<Content>, Failure> {
        match self.etcd.config()? {
            Some(config) => self.at(Location::Etcd(Box::new(config)), Duration::ZERO).await.map(Some),
            None if self.encryption_provider_config.is_some() => Err(Failure::input(
                "--encryption-provider-config says how objects in etcd are encrypted: it needs --etcd-servers",
            )),
            None => Ok(None),
        }
    }

    async fn at(&self, location: Location, event_ttl: Duration) -> Result<Content, Failure> {
        let encryption = match &self.encryption_provider_config {
            Some(file) => EncryptionConfig::load(file, false).map_err(|error| {
                Failure::input(format_args!("--encryption-provider-config {}: {error}", file.display()))
            })?,
            None => EncryptionConfig::default(),
        };
        Ok(Content::new(location, Kinds::built_in(), &encryption, event_ttl).await?)
    }
}

impl StoreFlags {
    /// Where the objects are, for people.
    pub(crate) fn describe(&self) -> String {
        match &self.data_dir {
            Some(dir) => dir.join(STORE).display().to_string(),
            None => self.shared.etcd.describe(),
        }
    }

    /// The kind of store, as manifests of exports name it.
    pub(crate) fn kind(&self) -> &'static str {
        if self.data_dir.is_some() { "embedded" } else { "etcd" }
    }

    /// The store. Events that are written to etcd live so long.
    ///
    /// # Errors
    /// A flag is invalid, a file cannot be read, or a KMS plug-in does not answer.
    pub(crate) async fn content(&self, event_ttl: Duration) -> Result<Content, Failure> {
        let location = match (&self.data_dir, self.shared.etcd.config()?) {
            (Some(dir), None) => Location::File(dir.join(STORE)),
            (None, Some(config)) => Location::Etcd(Box::new(config)),
            _ => return Err(Failure::input("name one store: --data-dir DIR, or --etcd-servers URLS")),
        };
        self.shared.at(location, event_ttl).await
    }
}
