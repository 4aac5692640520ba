//! Where a TPM is: a device, a Unix socket or a TCP port (AT-110, ST-20).

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::TpmError;

/// The device with the kernel's resource manager, then the raw one (AT-110).
const DEVICES: [&str; 2] = ["/dev/tpmrm0", "/dev/tpm0"];

/// Where a TPM is.
///
/// | Connection string | Meaning |
/// | --- | --- |
/// | `/dev/tpmrm0`, `device:/dev/tpm0` | a character device |
/// | `unix:SOCKET`, `swtpm:path=SOCKET` | a software TPM behind a Unix socket |
/// | `tcp:HOST:PORT`, `swtpm:host=HOST,port=PORT` | a software TPM behind a TCP port |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A character device.
    Device(PathBuf),
    /// A Unix socket that takes bare commands.
    Unix(PathBuf),
    /// A TCP port that takes bare commands.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
}

impl Address {
    /// The TPM of this machine: the device with the kernel's resource manager, else the raw device (AT-110).
    ///
    /// # Errors
    /// There is neither.
    pub fn of_this_machine() -> Result<Self, TpmError> {
        let found = DEVICES.iter().map(Path::new).find(|device| device.exists());
        found.map(|device| Self::Device(device.to_owned())).ok_or(TpmError::NoDevice)
    }
}

impl FromStr for Address {
    type Err = TpmError;

    fn from_str(text: &str) -> Result<Self, TpmError> {
        let bad = |why| TpmError::Address { text: text.to_owned(), why };
        let path = |path: &str| {
            if path.is_empty() { Err(bad("the path is empty")) } else { Ok(PathBuf::from(path)) }
        };
        if text.starts_with('/') {
            return Ok(Self::Device(PathBuf::from(text)));
        }
        let (kind, rest) =
            text.split_once(':').ok_or_else(|| bad("it is neither an absolute path nor KIND:..."))?;
        match kind {
            "device" => path(rest).map(Self::Device),
            "unix" => path(rest).map(Self::Unix),
            "tcp" => {
                let (host, port) = rest.rsplit_once(':').ok_or_else(|| bad("the port is missing"))?;
                tcp(host, port).map_err(bad)
            }
            "swtpm" => match rest.strip_prefix("path=") {
                Some(socket) => path(socket).map(Self::Unix),
                None => {
                    let (host, port) =
                        host_and_port(rest).ok_or_else(|| bad("it has no path=, or no host= and port="))?;
                    tcp(host, port).map_err(bad)
                }
            },
            _ => Err(bad("the kind of connection is unknown")),
        }
    }
}

fn host_and_port(text: &str) -> Option<(&str, &str)> {
    let (first, second) = text.split_once(',')?;
    let (host, port) = if first.starts_with("host=") { (first, second) } else { (second, first) };
    Some((host.strip_prefix("host=")?, port.strip_prefix("port=")?))
}

fn tcp(host: &str, port: &str) -> Result<Address, &'static str> {
    let port = port.parse().map_err(|_| "the port is no number from 0 to 65535")?;
    // An IPv6 address stands in brackets before a port.
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if bare.is_empty() { Err("the host is empty") } else { Ok(Address::Tcp { host: bare.to_owned(), port }) }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(path) => write!(f, "device:{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}
