//! The flags of `serve` for where objects are kept: in the embedded store, or in etcd (ET-1, ET-2).

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use portcullis_server::api_server::{EtcdConfig, STORE, Storage};

use crate::etcd_flags::EtcdFlags;
use crate::failure::Failure;
use crate::limit_flags::duration;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// One file in the data directory
    Embedded,
    /// etcd
    Etcd3,
}

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Storage")]
pub(crate) struct StorageFlags {
    /// Where objects are stored: embedded, in the data directory, or etcd3 [default: etcd3 with --etcd-servers, otherwise
    /// embedded]
    #[arg(long, value_name = "STORE")]
    storage_backend: Option<Backend>,

    #[command(flatten)]
    etcd: EtcdFlags,

    /// How often etcd is compacted. All servers that share it do it once. 0 for never
    #[arg(long, value_name = "TIME", default_value = "5m0s", value_parser = duration)]
    etcd_compaction_interval: Duration,

    /// How long etcd has to answer for the health check etcd, which /healthz and /readyz have. What is more than four seconds counts
    /// as four: nothing but health checks is answered then
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    etcd_healthcheck_timeout: Duration,

    /// As --etcd-healthcheck-timeout, for the health check etcd-readiness, which /readyz alone has
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    etcd_readycheck_timeout: Duration,

    /// The form in which objects are written to etcd. Objects in protobuf are read too
    #[arg(long, value_name = "TYPE", default_value = "application/json", value_parser = ["application/json"])]
    storage_media_type: String,
}

impl StorageFlags {
    /// Where objects are stored, for people.
    pub(crate) fn describe(&self, data_dir: &Path) -> String {
        match self.etcd.is_given() {
            false => data_dir.join(STORE).display().to_string(),
            true => self.etcd.describe(),
        }
    }

    /// Where objects are stored.
    ///
    /// # Errors
    /// The flags contradict each other, or a file cannot be read.
    pub(crate) fn storage(&self) -> Result<Storage, Failure> {
        match (self.storage_backend, !self.etcd.is_given()) {
            (None | Some(Backend::Embedded), true) => return Ok(Storage::DataDir),
            (Some(Backend::Embedded), false) => {
                return Err(Failure::input(
                    "--storage-backend=embedded and --etcd-servers name two stores: leave one of them out",
                ));
            }
            (Some(Backend::Etcd3), true) => {
                return Err(Failure::input("--storage-backend=etcd3 needs --etcd-servers"));
            }
            (None | Some(Backend::Etcd3), false) => {}
        }
        let timeouts = [
            ("etcd-healthcheck-timeout", self.etcd_healthcheck_timeout),
            ("etcd-readycheck-timeout", self.etcd_readycheck_timeout),
        ];
        if let Some((flag, _)) = timeouts.iter().find(|(_, timeout)| timeout.is_zero()) {
            return Err(Failure::input(format_args!(
                "--{flag} must be longer than nothing: the default is 2s"
            )));
        }
        Ok(match self.etcd.config()? {
            Some(config) => Storage::Etcd(Box::new(EtcdConfig {
                compaction: Some(self.etcd_compaction_interval).filter(|interval| !interval.is_zero()),
                health_timeout: self.etcd_healthcheck_timeout,
                ready_timeout: self.etcd_readycheck_timeout,
                ..config
            })),
            None => Storage::DataDir,
        })
    }
}
