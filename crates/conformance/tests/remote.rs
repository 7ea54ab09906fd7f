//! Every case through the remote client: the same handles, over a server in this process.

mod served;

use mainstay_conformance::World;

macro_rules! make {
    ($($area:ident :: $file:ident { $($case:ident,)* })*) => {
        $(mod $file {
            $(#[test]
            fn $case() {
                let mut world = super::World::served(super::served::serve);
                mainstay_conformance::$area::$file::$case(&mut world);
            })*
        })*
    };
}

// Those of `every_record_case` come here, as in memory.rs, once the client reads records.
mainstay_conformance::every_case!(make);
