// Scans the file that is named first: java scan.java FILE. Ends with 0 when it is clean, 1 when it is infected, 2 when there is no verdict.
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

class Scan {
    public static void main(String[] args) {
        try {
            System.exit(scan(Path.of(args[0])));
        } catch (Exception problem) {
            System.err.println("no verdict: " + problem);
            System.exit(2);
        }
    }

    static int scan(Path file) throws Exception {
        // The file as it is, with its name beside it: there is no form in Java's library.
        String name = URLEncoder.encode(file.getFileName().toString(), StandardCharsets.UTF_8).replace("+", "%20");
        HttpRequest request = HttpRequest.newBuilder(URI.create(System.getenv("SLUICE_URL") + "/api/v1/scans"))
            .header("X-API-KEY", System.getenv("SLUICE_API_KEY"))
            .header("Content-Type", "application/octet-stream")
            .header("X-Filename", name)
            .POST(HttpRequest.BodyPublishers.ofFile(file))
            .build();
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            // 422: not fully looked at, which is not the same as clean. 429: the hour's quota is used up.
            System.err.println("no verdict: " + answer.statusCode() + " " + answer.body());
            return 2;
        }
        System.out.println(answer.body());
        return answer.body().contains("\"infected\":false") ? 0 : 1;
    }
}
