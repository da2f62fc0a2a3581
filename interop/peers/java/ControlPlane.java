// A control plane on java-control-plane's simple cache, over a folder of YAML resources.
//
// It does the same as peers/go/control-plane: it reads every *.yaml of the folder (one resource with
// "@type" per document), serves them to every node alike, and looks for changes ten times a second. Lines on stdout:
//
//     grpc ADDRESS         the address it listens on, once
//     snapshot HASH        a new snapshot is served
//     ack TYPE NAMES       a client accepted a response
//     nack TYPE MESSAGE    a client rejected one
//
//     java ControlPlane DIR [ADDRESS]

import com.google.gson.Gson;
import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.protobuf.TypeRegistry;
import com.google.protobuf.util.JsonFormat;
import com.google.rpc.Status;
import io.envoyproxy.controlplane.cache.v3.SimpleCache;
import io.envoyproxy.controlplane.cache.v3.Snapshot;
import io.envoyproxy.controlplane.server.DiscoveryServerCallbacks;
import io.envoyproxy.controlplane.server.V3DiscoveryServer;
import io.envoyproxy.envoy.config.cluster.v3.Cluster;
import io.envoyproxy.envoy.config.endpoint.v3.ClusterLoadAssignment;
import io.envoyproxy.envoy.config.listener.v3.Listener;
import io.envoyproxy.envoy.config.route.v3.RouteConfiguration;
import io.envoyproxy.envoy.extensions.filters.http.router.v3.Router;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager;
import io.envoyproxy.envoy.service.discovery.v3.DeltaDiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryRequest;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeMap;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

public final class ControlPlane {
  /** The one node group: all nodes see the same snapshot. */
  private static final String EVERYONE = "everyone";

  private static final JsonFormat.Parser PARSER =
      JsonFormat.parser()
          .usingTypeRegistry(
              TypeRegistry.newBuilder()
                  .add(Cluster.getDescriptor())
                  .add(ClusterLoadAssignment.getDescriptor())
                  .add(Listener.getDescriptor())
                  .add(RouteConfiguration.getDescriptor())
                  .add(HttpConnectionManager.getDescriptor())
                  .add(Router.getDescriptor())
                  .build());

  public static void main(String[] arguments) throws Exception {
    if (arguments.length < 1) {
      System.err.println("usage: ControlPlane DIR [ADDRESS]");
      System.exit(2);
    }
    String[] address = (arguments.length > 1 ? arguments[1] : "127.0.0.1:0").split(":");
    SimpleCache<String> cache = new SimpleCache<>(node -> EVERYONE);
    V3DiscoveryServer discovery = new V3DiscoveryServer(new Reporter(), cache);
    Server server =
        NettyServerBuilder.forAddress(
                new InetSocketAddress(address[0], Integer.parseInt(address[1])))
            .addService(discovery.getAggregatedDiscoveryServiceImpl())
            .build()
            .start();
    say("grpc " + address[0] + ":" + server.getPort());
    follow(Path.of(arguments[0]), cache);
  }

  /** Publishes the folder whenever its bytes differ from those served. */
  private static void follow(Path folder, SimpleCache<String> cache) throws Exception {
    String served = "";
    while (true) {
      TreeMap<Path, byte[]> files = new TreeMap<>();
      try (DirectoryStream<Path> listed = Files.newDirectoryStream(folder, "*.yaml")) {
        for (Path file : listed) {
          files.put(file, Files.readAllBytes(file));
        }
      }
      MessageDigest all = MessageDigest.getInstance("SHA-256");
      files.values().forEach(all::update);
      String hash = HexFormat.of().formatHex(all.digest(), 0, 6);
      if (!hash.equals(served)) {
        try {
          cache.setSnapshot(EVERYONE, snapshot(files, hash));
          served = hash;
          say("snapshot " + hash);
        } catch (Exception error) {
          // A half-written file is read again at the next check.
          System.err.println(error);
        }
      }
      Thread.sleep(100);
    }
  }

  private static Snapshot snapshot(TreeMap<Path, byte[]> files, String version) throws Exception {
    List<Any> resources = new ArrayList<>();
    Yaml yaml = new Yaml(new SafeConstructor(new LoaderOptions()));
    for (byte[] file : files.values()) {
      if (file.length == 0) {
        throw new IllegalStateException("an empty file: it is being written");
      }
      for (Object document : yaml.loadAll(new String(file, StandardCharsets.UTF_8))) {
        Any.Builder resource = Any.newBuilder();
        PARSER.merge(new Gson().toJson(document), resource);
        resources.add(resource.build());
      }
    }
    return Snapshot.create(
        of(resources, Cluster.class),
        of(resources, ClusterLoadAssignment.class),
        of(resources, Listener.class),
        of(resources, RouteConfiguration.class),
        List.of(),
        version);
  }

  private static <T extends Message> List<T> of(List<Any> resources, Class<T> kind)
      throws Exception {
    List<T> found = new ArrayList<>();
    for (Any resource : resources) {
      if (resource.is(kind)) {
        found.add(resource.unpack(kind));
      }
    }
    return found;
  }

  private static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  /** Prints the ACKs and NACKs of clients, over SotW and delta. */
  private static final class Reporter implements DiscoveryServerCallbacks {
    @Override
    public void onV3StreamRequest(long stream, DiscoveryRequest request) {
      report(
          request.getTypeUrl(),
          request.getResponseNonce(),
          request.hasErrorDetail() ? request.getErrorDetail() : null,
          String.join(",", request.getResourceNamesList()));
    }

    @Override
    public void onV3StreamDeltaRequest(long stream, DeltaDiscoveryRequest request) {
      report(
          request.getTypeUrl(),
          request.getResponseNonce(),
          request.hasErrorDetail() ? request.getErrorDetail() : null,
          "");
    }

    private static void report(String typeUrl, String nonce, Status error, String names) {
      String kind = typeUrl.substring(typeUrl.lastIndexOf('/') + 1);
      if (error != null) {
        say("nack " + kind + " " + new Gson().toJson(error.getMessage()));
      } else if (!nonce.isEmpty()) {
        say("ack " + kind + " " + names);
      }
    }
  }
}
