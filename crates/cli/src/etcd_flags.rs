//! The flags for the connection to etcd, of every command that uses it (ET-1).

use std::path::PathBuf;

use clap::Args;
use portcullis_server::registry::backend::EtcdConfig;
use portcullis_server::registry::etcd_certificates::CertificateFiles;

use crate::failure::Failure;

/// See the module.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Storage")]
pub struct EtcdFlags {
    /// The etcd servers, comma separated, such as https://10.0.0.1:2379. Any number of servers may share one etcd; objects lie
    /// there as kube-apiserver stores them. docs/etcd.md says how to set it up
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    etcd_servers: Vec<String>,

    /// The authorities that verify the certificates of the etcd servers, in PEM. A server reads this file and those of the client
    /// certificate again when they change
    #[arg(long, value_name = "FILE", requires = "etcd_servers")]
    etcd_cafile: Option<PathBuf>,

    /// The client certificate for etcd, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,

    /// The key of --etcd-certfile, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,

    /// The prefix of all keys in etcd
    #[arg(long, value_name = "PREFIX", default_value = "/registry")]
    etcd_prefix: String,
}

impl EtcdFlags {
    /// Whether the flags name an etcd.
    pub(crate) fn is_given(&self) -> bool {
        !self.etcd_servers.is_empty()
    }

    /// Where the objects are, for people.
    pub(crate) fn describe(&self) -> String {
        format!("etcd at {} below {}", self.etcd_servers.join(","), self.etcd_prefix)
    }

    /// How to connect to etcd, which is never compacted; none if no etcd is named.
    ///
    /// # Errors
    /// A flag is invalid, or a file cannot be read.
    pub(crate) fn config(&self) -> Result<Option<EtcdConfig>, Failure> {
        if !self.is_given() {
            return Ok(None);
        }
        for server in &self.etcd_servers {
            if !server.starts_with("http://") && !server.starts_with("https://") {
                return Err(Failure::input(format_args!(
                    "--etcd-servers {server}: write it as https://HOST:PORT, or http://HOST:PORT"
                )));
            }
        }
        let prefix = self.etcd_prefix.trim_matches('/');
        if prefix.is_empty() {
            return Err(Failure::input("--etcd-prefix must not be empty: the default is /registry"));
        }
        let files = CertificateFiles {
            authority: self.etcd_cafile.clone(),
            identity: self.etcd_certfile.clone().zip(self.etcd_keyfile.clone()),
        };
        Ok(Some(EtcdConfig {
            servers: self.etcd_servers.clone(),
            prefix: format!("/{prefix}"),
            tls: files.read().map_err(Failure::input)?,
            files,
            ..EtcdConfig::default()
        }))
    }
}
