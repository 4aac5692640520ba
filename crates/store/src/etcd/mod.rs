//! A store in etcd, which any number of servers share.

mod layout;

pub use self::layout::Layout;
