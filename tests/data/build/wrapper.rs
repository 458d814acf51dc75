mod model;

fn main() {
    let mut w = [1.0, 2.0, 3.0, 4.0];
    let g = [1.0; 4];
    let (mut q, mut y) = ([0u8; 3], [0f32; 4]);
    let mut run = model::Run::new(None);
    run.call(&mut w, &g, &[1, 0, 1], &[1.0, 1.0, 1.0, 2.0], &[], &mut q, &mut y, &mut []).unwrap();
    println!(
        "{} {} {} {} | {} {} {} | ({},{}) ({},{})",
        w[0], w[1], w[2], w[3], q[0], q[1], q[2], y[0], y[1], y[2], y[3]
    );
    println!("{}", model::Error { code: 3 });
    let told = run.call(&mut w, &g[..3], &[1, 0, 1], &[1.0; 4], &[], &mut q, &mut y, &mut []);
    println!("{}", if told.unwrap_err().to_string().contains("wrong") { "wrong" } else { "right" });
}
