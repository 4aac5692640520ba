//! Who may have which certificate: rules over plain values.

pub mod machine;
