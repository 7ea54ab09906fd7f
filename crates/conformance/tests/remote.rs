//! Runs every case through the remote client, connected to a server in this process.

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

mainstay_conformance::every_case!(make);

mod records {
    use super::{World, served};
    mainstay_conformance::every_record_case!(make);
}

mod runs {
    use super::{World, served};
    mainstay_conformance::every_run_case!(make);
}

mod outbox {
    use super::{World, served};
    mainstay_conformance::every_outbox_case!(make);
}

mod keyed {
    use super::{World, served};
    mainstay_conformance::every_keyed_case!(make);
}
