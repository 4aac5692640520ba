//! Which user of this machine a loopback connection belongs to.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// The state of an open connection in the tables.
const ESTABLISHED: &str = "01";
/// The tables of the kernel, which are always there on Linux.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// The user of the process at the other end of a connection; none if it is not of this machine, or not known.
pub(super) fn uid(peer: SocketAddr, own: SocketAddr) -> Option<u32> {
    let (peer, own) = (addresses(peer), addresses(own));
    TABLES.iter().find_map(|table| {
        let text = fs::read_to_string(table).ok()?;
        text.lines().skip(1).find_map(|line| of_line(line, &peer, &own))
    })
}

/// The user in a line of a table, if it is the other end of the connection: its local address is that of the peer. A socket
/// that its process has left has no inode, and is shown as one of user 0: it counts as nobody's.
fn of_line(line: &str, peer: &[String], own: &[String]) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
    let is_it = peer.iter().any(|peer| peer == local) && own.iter().any(|own| own == remote);
    let uid = fields.nth(3)?;
    let inode = fields.nth(1)?;
    if is_it && state == ESTABLISHED && inode != "0" { uid.parse().ok() } else { None }
}

/// The forms of an address in the tables: groups of four bytes in the order of the machine, then the port. An IPv4 address
/// may also be in the table of IPv6.
fn addresses(address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let group = |bytes: &[u8]| -> String {
        let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
        format!("{:08X}", u32::from_ne_bytes(bytes))
    };
    let long = |bytes: [u8; 16]| -> String {
        let groups: String = bytes.chunks(4).map(group).collect();
        format!("{groups}:{port:04X}")
    };
    match address.ip() {
        IpAddr::V4(ip) => {
            vec![format!("{}:{port:04X}", group(&ip.octets())), long(ip.to_ipv6_mapped().octets())]
        }
        IpAddr::V6(ip) => vec![long(ip.octets())],
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_user_of_a_connection_is_that_of_its_process_at_118() {
        let own = rustix::process::geteuid().as_raw();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Skipped on a machine without IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            assert_eq!(uid(peer, server.local_addr().unwrap()), Some(own), "{address}");
            // The other direction is the server itself; a connection that does not exist is of nobody.
            assert_eq!(uid(SocketAddr::new(peer.ip(), 1), server.local_addr().unwrap()), None);
        }
    }

    #[test]
    fn lines_are_read_as_the_kernel_writes_them() {
        let line = "   1: 0100007F:D204 0100007F:1929 01 00000000:00000000 00:00000000 00000000  1000        0 4242 1";
        let of = |peer: &str, own: &str| {
            of_line(line, &addresses(peer.parse().unwrap()), &addresses(own.parse().unwrap()))
        };
        if cfg!(target_endian = "little") {
            assert_eq!(of("127.0.0.1:53764", "127.0.0.1:6441"), Some(1000));
            assert_eq!(of("127.0.0.1:53765", "127.0.0.1:6441"), None);
            assert_eq!(of("127.0.0.1:6441", "127.0.0.1:53764"), None);
            for left in [line.replace(" 01 ", " 06 "), line.replace(" 4242 ", " 0 ")] {
                let (peer, own) = ("127.0.0.1:53764".parse().unwrap(), "127.0.0.1:6441".parse().unwrap());
                assert_eq!(of_line(&left, &addresses(peer), &addresses(own)), None, "{left}");
            }
        }
    }
}
