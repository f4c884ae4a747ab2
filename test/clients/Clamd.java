// Asks as the Java libraries do: zINSTREAM in chunks of 2 KB over a socket, and everything up to the end is the answer.
// Arguments: the port. Standard input is the content.
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

public class Clamd {
    public static void main(String[] arguments) throws Exception {
        try (Socket socket = new Socket("127.0.0.1", Integer.parseInt(arguments[0]))) {
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            out.write("zINSTREAM\0".getBytes(StandardCharsets.US_ASCII));
            out.flush();
            byte[] chunk = new byte[2048];
            for (int read = System.in.read(chunk); read >= 0; read = System.in.read(chunk)) {
                out.writeInt(read);
                out.write(chunk, 0, read);
            }
            out.writeInt(0);
            out.flush();
            System.out.println(new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim());
        }
    }
}
