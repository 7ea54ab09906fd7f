//! Cells: named values with compare-and-swap.

pub mod batch;
pub mod cas;
pub mod delete;
pub mod expire;
pub mod history;
pub mod incr;
pub mod init;
pub mod list;
pub mod naming;
pub mod set;
pub mod values;
