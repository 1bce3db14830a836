//! Prints the route table: method, path, and who may use it.

use http_api::{Access, route_table};

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() {
    for route in route_table() {
        let access = match route.access {
            Access::Needs(action) => action.as_str().to_owned(),
            Access::Public(why) => format!("public, because it {why}"),
        };
        println!("{:<7} {:<32} {access}", route.method, route.path);
    }
}
