// SPDX-License-Identifier: Apache-2.0
// An HTTP service on the JVM: a pool of threads, deep chains of interfaces, lambdas and streams, maps and
// sorting; compiled, interpreted and library code mixed.
//
//     java Service PORT THREADS SECONDS
//
// It ends by itself after SECONDS.

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

public final class Service {
	private static final int ORDERS = 400;
	private static final int DEPTH_MIN = 4;
	private static final int DEPTH_MAX = 24;

	private record Order(int customer, String product, double price) { }

	/** One layer of middleware around the next. */
	private interface Layer {
		String handle(String request, int left);
	}

	private static final List<Layer> LAYERS = new ArrayList<>();

	private static String next(String request, int left) {
		return left == 0 ? report(request) : LAYERS.get(left % LAYERS.size()).handle(request, left - 1);
	}

	static {
		LAYERS.add((request, left) -> next(request + ".", left));
		LAYERS.add(new Layer() {
			@Override
			public String handle(String request, int left) {
				Map<String, Integer> seen = new HashMap<>();
				seen.computeIfAbsent(request, key -> key.length());
				return next(request, left);
			}
		});
		LAYERS.add((request, left) -> List.of(left).stream().map(each -> next(request, each))
				.collect(Collectors.joining()));
	}

	private static String report(String request) {
		var random = ThreadLocalRandom.current();
		List<Order> orders = IntStream.range(0, ORDERS)
				.mapToObj(i -> new Order(random.nextInt(40), "product" + random.nextInt(90), random.nextDouble()))
				.sorted(Comparator.comparing(Order::product).thenComparing(Order::price))
				.toList();
		Map<Integer, Double> sums = orders.stream().collect(
				Collectors.groupingBy(Order::customer, Collectors.summingDouble(Order::price)));
		StringBuilder text = new StringBuilder();
		sums.forEach((customer, sum) -> text.append(String.format("%d:%.2f,", customer, sum)));
		return text.toString();
	}

	private static void answer(HttpExchange exchange) throws IOException {
		exchange.getRequestBody().readAllBytes();
		int depth = ThreadLocalRandom.current().nextInt(DEPTH_MIN, DEPTH_MAX);
		byte[] body = next("order", depth).getBytes(StandardCharsets.UTF_8);
		exchange.sendResponseHeaders(200, body.length);
		exchange.getResponseBody().write(body);
		exchange.close();
	}

	public static void main(String[] arguments) throws Exception {
		var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[0]));
		HttpServer server = HttpServer.create(address, 64);
		server.setExecutor(Executors.newFixedThreadPool(Integer.parseInt(arguments[1])));
		server.createContext("/", Service::answer);
		server.start();
		Thread.sleep(1000L * Integer.parseInt(arguments[2]));
		System.exit(0);
	}
}
